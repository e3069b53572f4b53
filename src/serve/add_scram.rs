//! Writes SCRAM credentials into the data directory of a broker that does not run: the first user,
//! where no listener lets in whoever has not logged in.

use super::host::{self, Sentence, sentence};
use super::{EmbeddedStore, claim_directory};
use crate::cli::AddScram;
use crate::cluster::image::scram_users;
use crate::cluster::scram_change::check_room;
use crate::cluster::store::{MetadataChange, MetadataStore};
use crate::login::scram::spec;
use millstream_io::disk_file::FileDisk;
use std::io::Read;

/// Adds the credentials, all or none, and says which.
///
/// # Errors
/// One sentence that says what to do; passwords are not in it.
pub fn run(asked: &AddScram) -> Result<String, Sentence> {
    let mut specs = asked.specs.clone();
    if asked.from_input {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| format!("cannot read standard input: {error}"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        specs.extend(lines.map(str::to_owned));
    }
    let mut changes = Vec::new();
    let mut said = String::new();
    for (index, text) in specs.iter().enumerate() {
        let named = spec::parse(text)
            .map_err(|what| format!("credential {} cannot be: {what}", index + 1))?;
        let (user, mechanism) = (named.user, named.mechanism);
        said.push_str(&format!("{mechanism} credential of user {user}\n"));
        changes.push(MetadataChange::PutScram { user, mechanism, credential: named.credential });
    }
    if changes.is_empty() {
        return Err("there is no credential to add".to_owned());
    }
    let config = host::settings(&asked.settings)?;
    let (cpus, _) = host::cpus(&config)?;
    let directory = claim_directory(&FileDisk, &config, cpus.len())?;
    let mut store = EmbeddedStore::open(&directory.layout().cluster()).map_err(sentence)?;
    let users = scram_users(&store.load().map_err(sentence)?);
    check_room(&changes, &users).map_err(sentence)?;
    store.commit(&changes).map_err(sentence)?;
    Ok(format!("added to {}:\n{said}", config.data_dir.display()))
}
