//! The listener: one ordinary thread, whatever comes by its socket.
//!
//! A connection carries one request. What it may cost is bounded in [`super::limits`]: bytes and
//! time of a head, time for all of it, connections at once. A body is not read.

use super::health::Health;
use super::limits::{
    CONNECTION_TIME, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_TIME, HEADERS_MAX, PLACE_PATIENCE,
    PORT_PATIENCE, PORT_PAUSE,
};
use super::text;
use super::watch::Watcher;
use bytes::Bytes;
use futures_lite::future::{or, pending};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use millstream_io::log_limited;
use millstream_io::runtime::{Stop, log};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as PlainListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// The thread, until [`Server::stop`].
pub struct Server {
    stop: Stop,
    thread: JoinHandle<()>,
}

/// Where to listen.
pub enum Place {
    /// Bound already, because somebody asked for it.
    Bound(PlainListener),
    /// The default: another process that has it is no reason not to start.
    Default(SocketAddr),
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread or no descriptor.
    pub fn start(place: Place, watch: Watcher) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let stop = Stop::new();
        let until = stop.clone();
        let thread = std::thread::Builder::new()
            .name("admin".into())
            .spawn(move || run(&runtime, place, watch, &until))?;
        Ok(Server { stop, thread })
    }

    /// Closes all there is and ends the thread.
    pub fn stop(self) {
        self.stop.trigger();
        // It has no way to fail; if it does, the broker ends all the same.
        let _ = self.thread.join();
    }
}

fn run(runtime: &Runtime, place: Place, watch: Watcher, stop: &Stop) {
    let serving = async {
        match listener(place).await {
            Ok(listener) => accept(listener, watch).await,
            Err(error) => {
                log::warn(
                    "admin",
                    "no metrics and health over HTTP: set admin.listener to another HOST:PORT, \
                     or to nothing",
                )
                .field("reason", error)
                .emit();
                pending().await
            }
        }
    };
    runtime.block_on(or(stop.stopped(), serving));
}

async fn listener(place: Place) -> io::Result<TcpListener> {
    let began = Instant::now();
    let bound = match place {
        Place::Bound(bound) => bound,
        Place::Default(address) => loop {
            match PlainListener::bind(address) {
                // A killed broker's socket may outlive it for a moment.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && began.elapsed() < PORT_PATIENCE =>
                {
                    sleep(PORT_PAUSE).await;
                }
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
                }
                Ok(bound) => break bound,
            }
        },
    };
    bound.set_nonblocking(true)?;
    let listener = TcpListener::from_std(bound)?;
    log::info("admin", "metrics and health over HTTP")
        .field("address", listener.local_addr()?)
        .emit();
    Ok(listener)
}

async fn accept(listener: TcpListener, watch: Watcher) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = VecDeque::new();
    loop {
        let place = place(&places, &mut connections).await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = tokio::spawn(serve(stream, watch.clone(), place));
                connections.push_back(serving.abort_handle());
            }
            Err(error) => {
                // Out of descriptors, most likely: the next moment may be better.
                log_limited!(
                    log::warn("admin", "cannot take a connection").field("reason", &error)
                );
                sleep(PORT_PAUSE).await;
            }
        }
    }
}

/// Waits for a place. When none comes free, the oldest connection loses its own: it has had far
/// more time than an answer takes, so who is slow on purpose keeps nobody out.
async fn place(
    places: &Arc<Semaphore>,
    connections: &mut VecDeque<AbortHandle>,
) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(place) = timeout(PLACE_PATIENCE, places.clone().acquire_owned()).await {
            connections.retain(|connection| !connection.is_finished());
            return place.ok();
        }
        if let Some(oldest) = connections.pop_front() {
            oldest.abort();
        }
    }
}

async fn serve(stream: TcpStream, watch: Watcher, place: Option<OwnedSemaphorePermit>) {
    let answering = service_fn(move |request| answer(request, watch.clone()));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .half_close(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), answering);
    // Who sends nonsense, or goes away, is nobody to complain to.
    let _ = timeout(CONNECTION_TIME, connection).await;
    drop(place);
}

async fn answer(
    request: Request<Incoming>,
    watch: Watcher,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = matches!(request.uri().path(), "/metrics" | "/healthz" | "/readyz");
    if known && !is_get {
        let mut response = words(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    Ok(match request.uri().path() {
        "/metrics" => {
            // Made to its end, for the next one, also when this reader goes away.
            let made = tokio::spawn(async move { watch.text().await }).await;
            match made {
                Ok(text) => response(StatusCode::OK, text::CONTENT_TYPE, text),
                Err(_) => words(StatusCode::INTERNAL_SERVER_ERROR, "the text was not made\n"),
            }
        }
        "/healthz" => {
            let json = watch.health().await.json();
            response(StatusCode::OK, "application/json", Bytes::from(json))
        }
        "/readyz" => readiness(&watch.health().await),
        _ => words(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n"),
    })
}

fn readiness(health: &Health) -> Response<Full<Bytes>> {
    match health.unready() {
        None => words(StatusCode::OK, "ready\n"),
        Some(reason) => {
            let reason = Bytes::from(reason + "\n");
            response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, reason)
        }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn words(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    response(status, PLAIN, Bytes::from_static(words.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
