//! The watcher against cores that answer, and against some that do not.

use super::super::health::DirectoryState;
use super::*;
use crate::cluster::image::tests::image;
use crate::cluster::store::Stored;
use crate::session::admission::Connections;
use millstream_io::runtime::{Seat, mesh, run_alone, sleep};
use millstream_io::units::TimestampMs;
use millstream_shards::metrics::{Levels, Metrics};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, Runtime};

fn watch(cores: usize) -> (Vec<Seat<Look>>, Watcher) {
    let (seats, post) = mesh(cores);
    (seats, Arc::new(Watch::new(post, PathBuf::from("/d"), 10)))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn counts() -> CoreCounts {
    CoreCounts {
        metrics: Metrics::default(),
        levels: Levels { full: 1, ..Levels::default() },
        requests: Vec::new(),
        batches_recompressed: 0,
        logins: Vec::new(),
        sessions_expired: 0,
        connections: 0,
        admitted: Connections::default(),
        request_memory_bytes: 0,
        groups: Default::default(),
        transactions: Default::default(),
        at: TimestampMs::new(0),
        image: Arc::new(image(&Stored { starts: 1, ..Stored::default() })),
    }
}

/// A core that answers, each walk after a moment, until `walks` have been asked for.
fn answering(seat: Seat<Look>, walks: usize) -> std::thread::JoinHandle<()> {
    let seat = Arc::new(PlainMutex::new(Some(seat)));
    std::thread::spawn(move || {
        run_alone(move |_| async move {
            let (_, mut mailbox) = seat.lock().unwrap().take().unwrap().open();
            let mut asked = 0;
            while asked < walks {
                for look in mailbox.receive().await {
                    match look {
                        Look::Counts(promise) => drop(promise.send(counts())),
                        Look::Groups(promise) => {
                            sleep(Duration::from_millis(50)).await;
                            let _ = promise.send(CoreGroups::default());
                        }
                        Look::Partitions(promise) => {
                            asked += 1;
                            let _ = promise.send(Vec::new());
                        }
                    }
                }
            }
        });
    })
}

#[test]
fn twenty_scrapes_at_once_are_one_look_at_the_cores() {
    let (mut seats, watch) = watch(1);
    let core = answering(seats.pop().unwrap(), 1);
    watch.enter(Phase::Running);
    let different = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let first = watch.text().await;
        let scrapes: Vec<_> = (0..20)
            .map(|_| {
                let (watch, first, different) = (watch.clone(), first.clone(), different.clone());
                tokio::spawn(async move {
                    // The same bytes, not equal ones.
                    let is_same = watch.text().await.as_ptr() == first.as_ptr();
                    different.fetch_add(usize::from(!is_same), Ordering::Relaxed);
                })
            })
            .collect();
        for scrape in scrapes {
            scrape.await.unwrap();
        }
        assert!(String::from_utf8_lossy(&first).contains("millstream_storage_full{core=\"0\"} 1"));
    });
    assert_eq!(different.load(Ordering::Relaxed), 0);
    core.join().unwrap();
}

#[test]
fn scrapes_that_come_while_the_text_is_made_wait_for_it() {
    let (mut seats, watch) = watch(1);
    let core = answering(seats.pop().unwrap(), 1);
    watch.enter(Phase::Running);
    let texts: Vec<Bytes> = runtime().block_on(async {
        let ask = |_| {
            let watch = watch.clone();
            tokio::spawn(async move { watch.text().await })
        };
        let scrapes: Vec<_> = (0..20).map(ask).collect();
        let mut texts = Vec::new();
        for scrape in scrapes {
            texts.push(scrape.await.unwrap());
        }
        texts
    });
    assert!(texts.iter().all(|text| text.as_ptr() == texts[0].as_ptr()));
    core.join().unwrap();
}

#[test]
fn before_the_cores_run_nobody_asks_them() {
    let (_seats, watch) = watch(2);
    runtime().block_on(async {
        let began = Instant::now();
        assert!(watch.health().await.unready().unwrap().starts_with("starting"));
        let text = String::from_utf8(watch.text().await.to_vec()).unwrap();
        assert!(text.contains("millstream_ready 0") && text.contains("process_open_fds"));
        assert!(began.elapsed() < Duration::from_secs(1));
    });
}

/// Goal: a core that is stuck delays health by its patience alone, is told by what it said last, and
/// its metrics are missing rather than old.
#[test]
fn core_that_does_not_answer_holds_up_little() {
    let (mut seats, watch) = watch(2);
    let core = answering(seats.remove(0), 1);
    watch.enter(Phase::Running);
    runtime().block_on(async {
        let began = Instant::now();
        let health = watch.health().await;
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert_eq!(health.directories[0].state, DirectoryState::Full);
        assert!(health.silent_cores.is_empty(), "it may yet answer");
        let text = String::from_utf8(watch.text().await.to_vec()).unwrap();
        assert!(began.elapsed() < COUNTS_PATIENCE + Duration::from_secs(2));
        assert!(text.contains("millstream_core_up{core=\"0\"} 1"));
        assert!(text.contains("millstream_core_up{core=\"1\"} 0"));
        assert!(!text.contains("millstream_fsync_total{core=\"1\"}"));
    });
    core.join().unwrap();
}

#[test]
fn phase_never_goes_back() {
    let (_seats, watch) = watch(1);
    watch.enter(Phase::Stopping);
    watch.enter(Phase::Running);
    assert_eq!(watch.phase(), Phase::Stopping);
}
