//! What the cluster knows about itself: topics, settings, brokers, producer ids.
//!
//! The metadata is kept by a [`store::MetadataStore`], changed by the one
//! [`controller::Controller`], and read everywhere from a [`image::MetadataImage`] of which each
//! core holds its own reference.

pub mod boot;
pub mod change;
pub mod controller;
pub mod controller_task;
pub mod core_task;
pub mod embedded_store;
pub mod group_configs;
pub mod image;
pub mod limits;
pub mod plan;
pub mod producer_ids;
mod rules;
pub mod scram_change;
pub mod store;
pub mod topic_directories;
pub mod topic_name;
pub mod view;
