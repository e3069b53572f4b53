//! Decides what a change does to the settings of a group.

use super::super::change::{ConfigChange, ConfigOpKind, Refused};
use super::super::image::MetadataImage;
use super::super::limits::{GROUP_ID_BYTES_MAX, GROUPS_WITH_SETTINGS_MAX};
use super::{changed_value, check_single, sets};
use crate::config::{GroupConfig, group_setting};
use std::collections::BTreeMap;

/// The own settings of a group after a change. Groups need not exist to have settings, as with
/// Apache Kafka: they are set before the first member comes.
pub fn plan_group_configs(
    image: &MetadataImage,
    group: &str,
    change: &ConfigChange,
) -> Result<BTreeMap<String, String>, Refused> {
    check_id(group)?;
    let (mut own, ops) = match change {
        ConfigChange::Some(ops) => (without_leftovers(image, group), ops.clone()),
        ConfigChange::All(pairs) => (BTreeMap::new(), sets(pairs)),
    };
    check_single(&ops)?;
    for op in &ops {
        let setting = match group_setting(&op.key) {
            Ok(setting) => setting,
            Err(_) if op.kind == ConfigOpKind::Delete && own.remove(&op.key).is_some() => continue,
            Err(error) => return Err(error.into()),
        };
        // No setting of groups is a list, so nothing begins from what is in force.
        match changed_value(setting, op, String::new)? {
            Some(value) => own.insert(op.key.clone(), value),
            None => own.remove(&op.key),
        };
    }
    GroupConfig::check(&own, &image.broker)?;
    let groups = image.group_configs();
    if !own.is_empty() && groups.own(group).is_none() && groups.len() >= GROUPS_WITH_SETTINGS_MAX {
        return Err(Refused::TooMany {
            what: format!("{GROUPS_WITH_SETTINGS_MAX} groups have settings, and no more may"),
        });
    }
    Ok(own)
}

fn check_id(group: &str) -> Result<(), Refused> {
    match group.len() {
        1..=GROUP_ID_BYTES_MAX => Ok(()),
        0 => Err(Refused::Request { what: "Group name must not be empty".to_owned() }),
        bytes => Err(Refused::Request {
            what: format!(
                "a group id of {bytes} bytes is too long; at most {GROUP_ID_BYTES_MAX} bytes"
            ),
        }),
    }
}

/// What a group was given, with the values that are in force in the place of those that could not be
/// set today: they would refuse every other change.
fn without_leftovers(image: &MetadataImage, group: &str) -> BTreeMap<String, String> {
    let Some(stored) = image.group_configs().own(group) else { return BTreeMap::new() };
    let mut own = stored.clone();
    own.retain(|key, _| group_setting(key).is_err());
    own.extend(crate::config::group::in_force(stored, &image.broker));
    own
}
