//! The text of all metrics from what was observed.

use super::families::*;
use super::render_cores;
use super::render_groups;
use super::text::Text;
use super::watch::Observation;
use super::{limits::STEP, process};
use crate::cluster::image::MetadataImage;
use bytes::Bytes;
use millstream_io::units::{TopicId, bytes_u64};
use millstream_shards::query::PartitionMarks;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::yield_now;

/// Writes all there is; lets the thread's other connections have their turn now and then.
pub async fn text(seen: &Observation) -> Bytes {
    let mut text = Text::default();
    text.family(&BUILD_INFO).add(&[env!("CARGO_PKG_VERSION")], 1);
    text.value(&READY, u8::from(seen.ready));
    process::write(&mut text, seen.started);
    text.value(&OBSERVATION_SECONDS, seen.took.as_secs_f64());
    render_cores::write(&mut text, &seen.counts);
    if let Some(image) = newest(seen) {
        let marks = by_topic(&seen.partitions, &image);
        text.value(&TOPICS, image.topic_count());
        partitions(&mut text, &image, &marks, seen.detail_max).await;
        render_groups::write(&mut text, seen, &image, &marks).await;
    }
    Bytes::from(text.into_string())
}

/// Partitions of a topic by number; `None` where nothing is known.
pub type Marks = HashMap<TopicId, Vec<Option<PartitionMarks>>>;

/// Topics that are gone from the metadata are gone from here, whatever a core still holds.
fn by_topic(partitions: &[PartitionMarks], image: &MetadataImage) -> Marks {
    let mut marks = Marks::new();
    for partition in partitions {
        let Some(topic) = image.topic_by_id(partition.at.topic) else { continue };
        let Ok(index) = usize::try_from(partition.at.partition.get()) else { continue };
        let count = usize::try_from(topic.partitions).unwrap_or(usize::MAX);
        let of_topic = marks.entry(topic.id).or_insert_with(|| vec![None; count]);
        if let Some(place) = of_topic.get_mut(index) {
            *place = Some(*partition);
        }
    }
    marks
}

/// Cores learn of a change one after the other.
fn newest(seen: &Observation) -> Option<Arc<MetadataImage>> {
    let images = seen.counts.iter().flatten().map(|counts| &counts.image);
    images.max_by_key(|image| image.version).cloned()
}

async fn partitions(text: &mut Text, image: &MetadataImage, marks: &Marks, detail_max: usize) {
    let known = |topic: TopicId| marks.get(&topic).into_iter().flatten().flatten();
    if image.topic_count() <= detail_max {
        let mut counts = text.family(&TOPIC_PARTITIONS);
        image.topics().for_each(|topic| counts.add(&[&topic.name], topic.partitions));
        let mut bytes = text.family(&TOPIC_LOG_BYTES);
        for topic in image.topics() {
            bytes.add(&[&topic.name], known(topic.id).map(|marks| marks.bytes).sum::<u64>());
        }
        let mut ends = text.family(&TOPIC_HIGH_WATERMARKS);
        for topic in image.topics() {
            let sum: i64 = known(topic.id).map(|marks| marks.marks.high_watermark.get()).sum();
            ends.add(&[&topic.name], sum);
        }
    }
    if image.partition_count() > bytes_u64(detail_max) {
        return;
    }
    let offset: [(&'static Family, fn(&PartitionMarks) -> i64); 4] = [
        (&LOG_START, |p| p.marks.log_start.get()),
        (&LAST_STABLE, |p| p.marks.last_stable.get()),
        (&HIGH_WATERMARK, |p| p.marks.high_watermark.get()),
        (&LOG_END, |p| p.marks.log_end.get()),
    ];
    for (family, value) in offset {
        write_partitions(text, family, image, marks, value);
        yield_now().await;
    }
    write_partitions(text, &LOG_BYTES, image, marks, |p| p.bytes);
}

fn write_partitions<V: std::fmt::Display>(
    text: &mut Text,
    family: &'static Family,
    image: &MetadataImage,
    marks: &Marks,
    value: impl Fn(&PartitionMarks) -> V,
) {
    let mut samples = text.family(family);
    for topic in image.topics() {
        for partition in marks.get(&topic.id).into_iter().flatten().flatten() {
            let index = partition.at.partition.get().to_string();
            samples.add(&[&topic.name, &index], value(partition));
        }
    }
}

/// Counts steps and says when it is time to let others have their turn.
#[derive(Debug, Default)]
pub struct Turns(usize);

impl Turns {
    pub async fn after(&mut self, steps: usize) {
        self.0 += steps;
        if self.0 >= STEP {
            self.0 = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
