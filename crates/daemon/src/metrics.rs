//! Metrics that describe themselves: name, labels and meaning are written once, where the metric is created, and the
//! reference for operators is generated from them.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// The metrics of one program, while they are being created.
#[derive(Debug)]
pub struct Catalogue {
    prefix: &'static str,
    registry: Registry,
    described: Vec<Description>,
}

/// The metrics of one program, with their descriptions for the reference.
#[derive(Clone, Debug)]
pub struct MetricSet {
    pub registry: Arc<Registry>,
    pub described: Arc<[Description]>,
}

/// A metric as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The full name, as it is scraped.
    pub name: String,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// A set of labels with their names; defined by [`labels!`](crate::labels).
pub trait Labels {
    const NAMES: &'static [&'static str];
}

/// The kind and the labels of a metric, derived from its type.
pub trait MetricSchema {
    const KIND: Kind;
    const LABELS: &'static [&'static str] = &[];
}

impl<N, A> MetricSchema for Counter<N, A> {
    const KIND: Kind = Kind::Counter;
}

impl<N, A> MetricSchema for Gauge<N, A> {
    const KIND: Kind = Kind::Gauge;
}

impl MetricSchema for Histogram {
    const KIND: Kind = Kind::Histogram;
}

impl<L: Labels, M: MetricSchema, C> MetricSchema for Family<L, M, C> {
    const KIND: Kind = M::KIND;
    const LABELS: &'static [&'static str] = L::NAMES;
}

/// A gauge whose value a collector reads at each scrape.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub name: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Reading {
    /// One number, without labels.
    pub const fn plain(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            labels: &[],
            help,
        }
    }

    pub fn encode<'a>(
        &self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)
    }
}

impl Catalogue {
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            registry: Registry::with_prefix(prefix),
            described: Vec::new(),
        }
    }

    /// Adds a new, empty metric.
    pub fn add<M>(&mut self, name: &'static str, help: &'static str) -> M
    where
        M: MetricSchema + Metric + Clone + Default,
    {
        self.add_made(name, help, M::default())
    }

    /// Like [`add`](Self::add), for a metric that already exists or has no default.
    pub fn add_made<M>(&mut self, name: &'static str, help: &'static str, metric: M) -> M
    where
        M: MetricSchema + Metric + Clone,
    {
        self.describe(name, M::KIND, M::LABELS, help);
        self.registry.register(name, help, metric.clone());
        metric
    }

    /// Adds gauges that a collector encodes: it must encode these and no others.
    pub fn read(&mut self, readings: &[Reading], collector: Box<dyn Collector>) {
        for reading in readings {
            self.describe(reading.name, Kind::Gauge, reading.labels, reading.help);
        }
        self.registry.register_collector(collector);
    }

    fn describe(
        &mut self,
        name: &str,
        kind: Kind,
        labels: &'static [&'static str],
        help: &'static str,
    ) {
        let total = if kind == Kind::Counter { "_total" } else { "" };
        self.described.push(Description {
            name: format!("{}_{name}{total}", self.prefix),
            kind,
            labels,
            help,
        });
    }

    pub fn publish(self) -> MetricSet {
        MetricSet {
            registry: Arc::new(self.registry),
            described: self.described.into(),
        }
    }
}

/// Counters with one label of a few fixed values.
pub type CountByOutcome = Family<Outcome, Counter>;
pub type CountByReason = Family<Reason, Counter>;
pub type CountByResource = Family<Resource, Counter>;

pub trait Count {
    fn count(&self, value: &'static str);
}

impl<L> Count for Family<L, Counter>
where
    L: From<&'static str> + Clone + Hash + Eq,
{
    fn count(&self, value: &'static str) {
        self.get_or_create(&value.into()).inc();
    }
}

macro_rules! one_label {
    ($name:ident { $label:ident }) => {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        pub struct $name {
            pub $label: &'static str,
        }

        impl Labels for $name {
            const NAMES: &'static [&'static str] = &[stringify!($label)];
        }

        impl From<&'static str> for $name {
            fn from($label: &'static str) -> Self {
                Self { $label }
            }
        }
    };
}

one_label!(Outcome { outcome });
one_label!(Reason { reason });
one_label!(Resource { resource });

/// Counts the watches of a program that broke.
pub fn watch_interruptions<M>(catalogue: &mut Catalogue) -> M
where
    M: MetricSchema + Metric + Clone + Default,
{
    catalogue.add("watch_interruptions", "Watches that broke and were resumed")
}

/// A set of labels: a private struct whose fields are the labels.
#[macro_export]
macro_rules! labels {
    ($name:ident { $($(#[$meta:meta])* $label:ident: $kind:ty),+ $(,)? }) => {
        #[derive(
            Clone, Debug, Hash, PartialEq, Eq, ::prometheus_client::encoding::EncodeLabelSet,
        )]
        struct $name {
            $($(#[$meta])* $label: $kind),+
        }

        impl $crate::metrics::Labels for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($label)),+];
        }
    };
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    labels!(Answer {
        verb: &'static str,
        code: u16,
    });

    #[derive(Debug)]
    struct Weather;

    const RAIN: Reading = Reading::plain("rain", "Rain now");

    impl Collector for Weather {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            RAIN.encode(&mut encoder)?.encode_gauge(&1u64)
        }
    }

    #[test]
    fn what_is_described_is_what_is_scraped() {
        let mut catalogue = Catalogue::new("test");
        let answers: Family<Answer, Counter> = catalogue.add("answers", "Answers given");
        let (verb, code) = ("get", 200);
        answers.get_or_create(&Answer { verb, code }).inc();
        let _open: Gauge = catalogue.add("open", "Open now");
        catalogue.read(&[RAIN], Box::new(Weather));
        let published = catalogue.publish();
        let mut text = String::new();
        encode(&mut text, &published.registry).unwrap();
        let described: Vec<String> = published
            .described
            .iter()
            .map(|metric| format!("{} {} {:?}", metric.name, metric.kind, metric.labels))
            .collect();
        assert_eq!(
            described,
            [
                "test_answers_total counter [\"verb\", \"code\"]",
                "test_open gauge []",
                "test_rain gauge []"
            ]
        );
        let sample = r#"test_answers_total{verb="get",code="200"} 1"#;
        for line in [
            sample,
            "test_open 0",
            "test_rain 1",
            "# HELP test_rain Rain now",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
