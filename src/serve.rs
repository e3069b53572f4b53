//! Runs a broker: everything is started from the ground up and stopped from the roof down.
//!
//! Start: settings, CPUs, the lock of the data directory, the host's abilities, addresses bound
//! (nobody can connect yet), metadata, cores with all their partitions, controller, doors, the
//! line that says ready. Stop: doors first, then what they use.

pub mod add_scram;
mod cores;
mod host;
mod limits;
mod report;

use crate::admin::core_task::Look;
use crate::admin::http::Server;
use crate::admin::watch::Watch;
use crate::cli::Arguments;
use crate::cluster::boot::boot;
use crate::cluster::controller::{Controller, new_partitions};
use crate::cluster::controller_task;
use crate::cluster::core_task::{CoreLinks, CoreOrder, open_partition};
use crate::cluster::embedded_store::EmbeddedStore;
use crate::cluster::image::{Broker, MetadataImage, Start};
use crate::cluster::topic_directories::DiskTopicDirectories;
use crate::config::Config;
use crate::group::handle::GroupOrder;
use crate::txn::handle::TransactionOrder;
use host::{BoundListener, Sentence, sentence, shown};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::data_dir::{Claim, DataDir};
use millstream_io::disk::Disk;
use millstream_io::disk_file::FileDisk;
use millstream_io::journal::RingLimits;
use millstream_io::last_written::last_written;
use millstream_io::removal::RemovalPace;
use millstream_io::runtime::{Stop, log, mesh, probe, signal};
use millstream_io::units::NodeId;
use millstream_shards::recover::{self, RecoverConfig, Recovered};
use millstream_shards::remover::Removals;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a broker until it is told to stop.
///
/// # Errors
/// One sentence that says what to do.
pub fn run(arguments: &Arguments) -> Result<(), Sentence> {
    let began = Instant::now();
    let config = host::settings(arguments)?;
    if let Some(level) = &arguments.log_level {
        log::set_level(level.parse()?);
    }
    let log_thread = log::start().map_err(|error| format!("cannot start a thread: {error}"))?;
    let result = serve(config, began);
    drop(log_thread);
    result
}

fn serve(config: Config, began: Instant) -> Result<(), Sentence> {
    host::log_warnings(&config);
    let stop = Stop::new();
    let signals = signal::SignalWatch::start(stop.clone())
        .map_err(|error| format!("cannot watch for stop signals: {error}"))?;
    let (cpus, allowed_cpus) = host::cpus(&config)?;
    let disk = FileDisk;
    let directory = claim_directory(&disk, &config, cpus.len())?;
    let alive = last_written(directory.layout());
    let offered = check_host(&config, cpus.len())?;
    let listeners = host::bind(&config, cpus.len())?;
    let (look_seats, look_post) = mesh::<Look>(cpus.len());
    let watch = Arc::new(Watch::new(look_post, config.data_dir.clone(), config.admin_detail_max));
    let (admin, admin_address) = start_admin(&config, &watch)?;
    let (removals, remover) = Removals::start(disk, RemovalPace::USUAL)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let mut directories =
        DiskTopicDirectories::start(disk, directory.layout().clone(), removals.clone())
            .map_err(|error| format!("cannot clear away deleted topics: {error}"))?;
    let mut store = EmbeddedStore::open(&directory.layout().cluster()).map_err(sentence)?;
    let cluster_id = directory.meta().cluster_id.clone();
    let stored = boot(&mut store, &cluster_id, &mut directories).map_err(sentence)?;
    let start = Start {
        cluster_id,
        brokers: vec![this_broker(&config, &listeners)],
        config,
        starts: stored.starts,
    };
    let image = MetadataImage::new(Arc::new(start), &stored);
    image.group_configs().tell_of_leftovers(&image.broker);
    image.tell_of_idle_rules();
    let (seats, post) = mesh::<CoreOrder>(cpus.len());
    let (group_seats, _) = mesh::<GroupOrder>(cpus.len());
    let (transaction_seats, _) = mesh::<TransactionOrder>(cpus.len());
    let controller =
        Controller::new(store, CoreLinks::new(post), directories, image.clone(), &stored);
    let (handle, controller) = controller_task::start(controller)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let recovered = recover(&disk, &directory, &image, cpus.len())?;
    let ready = ready_line(&image.start.config, &listeners, &cpus, admin_address);
    let plan = cores::Plan {
        cpus,
        allowed_cpus,
        offered,
        layout: directory.layout().clone(),
        removals,
        alive,
        image: Arc::new(image),
        controller: handle,
        seats,
        group_seats,
        transaction_seats,
        look_seats,
        watch,
        listeners,
        stop: stop.clone(),
    };
    let result = cores::run(plan, recovered, || say_ready(&ready, began));
    // The last handle on the controller went with the cores, so it ends when its work is done.
    let _ = controller.join();
    remover.stop();
    if let Some(admin) = admin {
        admin.stop();
    }
    drop(signals);
    drop(directory);
    log::info("serve", "stopped").emit();
    log::flush(Duration::from_secs(2));
    result
}

/// Starts to tell metrics and health, long before there is much to tell; says where.
fn start_admin(
    config: &Config,
    watch: &Arc<Watch>,
) -> Result<(Option<Server>, Option<SocketAddr>), Sentence> {
    let Some((place, address)) = host::bind_admin(config)? else { return Ok((None, None)) };
    let server = Server::start(place, watch.clone())
        .map_err(|error| format!("cannot start the admin listener: {error}"))?;
    Ok((Some(server), address))
}

/// Takes the data directory, or says who has it.
fn claim_directory(
    disk: &FileDisk,
    config: &Config,
    cores: usize,
) -> Result<DataDir<FileDisk>, Sentence> {
    let Some(node_id) = NodeId::new(config.node_id) else {
        panic!("node.id {} passed its check", config.node_id);
    };
    let shard_count = u16::try_from(cores).map_err(sentence)?;
    let claim = Claim { node_id, cluster_id: None, shard_count };
    DataDir::open(disk, &config.data_dir, &claim).map_err(sentence)
}

/// Brings back every partition that the metadata knows.
fn recover(
    disk: &FileDisk,
    directory: &DataDir<FileDisk>,
    image: &MetadataImage,
    cores: usize,
) -> Result<Recovered, Sentence> {
    let shards = u16::try_from(cores).map_err(sentence)?;
    let free = disk.free_bytes(directory.layout().root()).map_err(sentence)?;
    let config = RecoverConfig {
        layout: directory.layout().clone(),
        shard_count: shards,
        ring: RingLimits::fitting(free, shards),
        threads: limits::recovery_threads(cores),
        now: SystemClock::new().wall(),
    };
    let partitions = image.topics().flat_map(|topic| new_partitions(topic, 0)).map(open_partition);
    let recovered = recover::recover(disk, &config, partitions.collect()).map_err(sentence)?;
    report::log_recovery(&recovered.report);
    Ok(recovered)
}

/// Asks the host for all that is needed; says in the log what is odd about it.
fn check_host(config: &Config, cores: usize) -> Result<probe::Host, Sentence> {
    let data_dirs = vec![config.data_dir.clone()];
    let needs = probe::Needs { cores, data_dirs, direct: config.storage_direct };
    let host = probe::check(&needs).map_err(sentence)?;
    for warning in &host.warnings {
        log::warn("host", warning).emit();
    }
    Ok(host)
}

fn this_broker(config: &Config, listeners: &[BoundListener]) -> Broker {
    let Some(id) = NodeId::new(config.node_id) else {
        panic!("node.id {} passed its check", config.node_id);
    };
    let endpoints = listeners.iter().map(|listener| listener.advertised.clone()).collect();
    let rack = config.static_value("broker.rack").filter(|rack| !rack.is_empty());
    Broker { id, rack, endpoints }
}

/// The one line on standard output.
fn ready_line(
    config: &Config,
    listeners: &[BoundListener],
    cpus: &[usize],
    admin: Option<SocketAddr>,
) -> String {
    let listener = |listener: &BoundListener| {
        format!("{} (clients are told {})", listener.address, shown(&listener.advertised))
    };
    let listeners: Vec<String> = listeners.iter().map(listener).collect();
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let admin = admin.map(|address| format!(", metrics on http://{address}/metrics"));
    format!(
        "millstream is ready on {}, data in {}, {} core(s) on CPU {}{}",
        listeners.join(", "),
        config.data_dir.display(),
        cpus.len(),
        cpus.join(","),
        admin.unwrap_or_default()
    )
}

fn say_ready(line: &str, began: Instant) -> Result<(), Sentence> {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.map_err(|error| format!("cannot write to standard output: {error}"))?;
    log::info("serve", line).field("after_ms", began.elapsed().as_millis()).emit();
    Ok(())
}
