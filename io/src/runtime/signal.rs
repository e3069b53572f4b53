//! SIGTERM and SIGINT as the word to stop.
//!
//! Block the signals first thing in main, before any thread is started (threads inherit the
//! mask); then one thread waits for them. A second signal ends the process at once, unless it comes
//! so soon that it is the first one once more: timeout(1), a shell and a service manager may each
//! send one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::os;
use super::stop::Stop;

/// Blocks SIGTERM and SIGINT for this thread and all it starts. (pthread_sigmask(3))
#[expect(unsafe_code, reason = "signal masks have no wrapper")]
pub fn block_stop_signals() -> io::Result<()> {
    let set = stop_signals();
    // SAFETY: `set` is initialised; the null pointer says that the old mask is not wanted.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// The thread that turns the first stop signal into the word to stop.
pub struct SignalWatch {
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Starts the thread. [`block_stop_signals`] must have been called before in main.
    ///
    /// Errors: no descriptor or no thread left.
    pub fn start(stop: Stop) -> io::Result<SignalWatch> {
        let signals = signal_descriptor()?;
        let wake = os::eventfd()?;
        let woken = wake.try_clone()?;
        let thread = std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || watch(&signals, &woken, &stop))?;
        Ok(SignalWatch { wake, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        ring(&self.wake);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Exit code of a stop that the second signal cut short: 128 + SIGTERM or SIGINT.
const EXIT_BASE: i32 = 128;

/// Stop signals within this time of the first one are the same word said twice.
const SAME_WORD: Duration = Duration::from_secs(1);

fn watch(signals: &OwnedFd, woken: &OwnedFd, stop: &Stop) {
    let mut first: Option<Instant> = None;
    while let Some(signal) = next_signal(signals, woken) {
        if first.is_some_and(|first| first.elapsed() < SAME_WORD) {
            continue;
        }
        if first.is_some() {
            super::log::error("runtime", "second stop signal: ending without an ordered stop")
                .field("signal", signal)
                .emit();
            super::log::flush(std::time::Duration::from_millis(200));
            std::process::exit(EXIT_BASE + signal);
        }
        super::log::info("runtime", "stop signal: stopping in order")
            .field("signal", signal)
            .emit();
        first = Some(Instant::now());
        stop.trigger();
    }
}

/// Waits for the next stop signal; None when the watch itself is ended.
#[expect(unsafe_code, reason = "poll and read on descriptors that we own")]
fn next_signal(signals: &OwnedFd, woken: &OwnedFd) -> Option<i32> {
    loop {
        let entry =
            |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut both = [entry(signals), entry(woken)];
        // SAFETY: the pointer is valid for the two entries named.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        if ready < 0 {
            continue; // EINTR: the only error that open descriptors and a valid array leave.
        }
        if both[1].revents != 0 {
            return None;
        }
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is valid for `size` bytes.
        let got = unsafe { libc::read(signals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if got == size as isize {
            // SAFETY: the kernel filled the whole struct.
            return Some(unsafe { info.assume_init() }.ssi_signo as i32);
        }
    }
}

#[expect(unsafe_code, reason = "takes ownership of a fresh descriptor")]
fn signal_descriptor() -> io::Result<OwnedFd> {
    let set = stop_signals();
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[expect(unsafe_code, reason = "signal sets are filled by libc")]
fn stop_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset gets an initialised set and valid
    // signal numbers, so neither can fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        set.assume_init()
    }
}

#[expect(unsafe_code, reason = "writes eight bytes to an eventfd")]
fn ring(fd: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: the buffer is valid for its eight bytes. A failure means that the counter is full,
    // and then the other side is woken already.
    unsafe {
        libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signal goes to one thread that has it blocked, so the other tests of this process are
    /// not touched.
    #[test]
    #[expect(unsafe_code, reason = "sends a signal to this very thread")]
    fn stop_signal_gives_the_word_and_the_watch_can_be_ended() {
        std::thread::spawn(|| {
            block_stop_signals().unwrap();
            let stop = Stop::new();
            let signals = signal_descriptor().unwrap();
            let woken = os::eventfd().unwrap();
            // SAFETY: the thread is the calling one and alive; SIGTERM is blocked for it.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            // signalfd reads signals of the thread that reads, so watch runs here.
            assert_eq!(next_signal(&signals, &woken), Some(libc::SIGTERM));
            ring(&woken);
            watch(&signals, &woken, &stop);
            assert!(!stop.is_given(), "the watch was ended, not signalled");
            drop(SignalWatch::start(stop.clone()).unwrap());
            assert!(!stop.is_given());
        })
        .join()
        .unwrap();
    }
}
