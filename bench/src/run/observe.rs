//! What the kernel says about broker, client and device, once an interval.

use std::time::Duration;

use serde_json::{Value, json};

use crate::host::{Device, DeviceCounters};
use crate::process::Broker;

/// One look. What could not be seen is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// CPU time of the broker so far.
    pub broker_cpu: Option<Duration>,
    /// Resident memory of the broker.
    pub broker_rss: Option<u64>,
    /// CPU time of this client so far.
    pub client_cpu: Option<Duration>,
    /// The device under the broker's data; it counts everybody's writes.
    pub device: Option<DeviceCounters>,
}

/// Whom to look at.
pub struct Observer<'a> {
    /// `None`: a broker whose process is not here, or not known.
    pub broker: Option<&'a Broker>,
    pub device: Option<Device>,
}

impl Observer<'_> {
    /// Looks once.
    pub fn look(&self) -> Look {
        let own = Broker::attach(([127, 0, 0, 1], 0).into(), std::process::id());
        Look {
            broker_cpu: self.broker.and_then(|broker| broker.cpu().ok()),
            broker_rss: self.broker.and_then(|broker| broker.rss().ok()),
            client_cpu: own.and_then(|own| own.cpu()).ok(),
            device: self.device.as_ref().and_then(|device| device.counters().ok()),
        }
    }
}

/// The difference of two looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub seconds: f64,
    /// Cores, on average.
    pub broker_cores: Option<f64>,
    pub client_cores: Option<f64>,
    pub broker_rss: Option<u64>,
    pub device_writes: Option<u64>,
    pub device_bytes: Option<u64>,
    /// Flushes of the device's cache.
    pub device_syncs: Option<u64>,
}

impl Usage {
    /// From `before` to `after`, `seconds` apart.
    pub fn between(before: &Look, after: &Look, seconds: f64) -> Usage {
        let cores = |from: Option<Duration>, to: Option<Duration>| {
            Some(to?.saturating_sub(from?).as_secs_f64() / seconds)
        };
        let device = |of: fn(&DeviceCounters) -> u64| {
            Some(of(&after.device?).saturating_sub(of(&before.device?)))
        };
        Usage {
            seconds,
            broker_cores: cores(before.broker_cpu, after.broker_cpu),
            client_cores: cores(before.client_cpu, after.client_cpu),
            broker_rss: after.broker_rss,
            device_writes: device(|counters| counters.writes),
            device_bytes: device(|counters| counters.bytes_written),
            device_syncs: device(|counters| counters.flushes),
        }
    }

    /// CPU time of the broker in it, in seconds.
    pub fn broker_cpu_seconds(&self) -> Option<f64> {
        Some(self.broker_cores? * self.seconds)
    }

    /// For the report.
    pub fn json(&self) -> Value {
        json!({
            "brokerCpuCores": self.broker_cores,
            "clientCpuCores": self.client_cores,
            "brokerRssBytes": self.broker_rss,
            "deviceWrites": self.device_writes,
            "deviceWrittenBytes": self.device_bytes,
            "deviceSyncs": self.device_syncs,
        })
    }
}
