//! Who has a connection, and what becomes of an answer on it.

use anyhow::Result;

use super::consumer::Consumer;
use super::producer::Producer;
use super::shared::Shared;
use super::stats::Stats;
use super::transactor::Transactor;
use crate::client::{Outputs, Response};

/// Whose connection one is.
#[derive(Clone, Copy)]
pub enum Lane {
    Producer(usize),
    Transactor(usize),
    Consumer(usize),
    Idle,
}

/// Everybody who gets answers.
pub struct Roles {
    pub producers: Vec<Producer>,
    pub transactors: Vec<Transactor>,
    pub consumers: Vec<Consumer>,
    pub stats: Stats,
}

impl Roles {
    /// Requests and transactions that are due or open.
    pub fn unfinished(&self) -> u64 {
        let producers = self.producers.iter().map(Producer::unfinished).sum::<u64>();
        producers + self.transactors.iter().map(Transactor::unfinished).sum::<u64>()
    }

    /// Hands an answer to whom it is for, who may send at once.
    pub fn answer(
        &mut self,
        shared: &Shared,
        lane: Lane,
        response: &Response<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let stats = &mut self.stats;
        match lane {
            Lane::Producer(index) => {
                let producer = &mut self.producers[index];
                producer.answer(shared, response, stats)?;
                producer.fill(shared, outputs, stats);
            }
            Lane::Transactor(index) => {
                let transactor = &mut self.transactors[index];
                transactor.answer(shared, response, stats)?;
                transactor.advance(shared, outputs, stats);
            }
            Lane::Consumer(index) => {
                let consumer = &mut self.consumers[index];
                consumer.answer(shared, response, stats)?;
                consumer.ask(shared, outputs)?;
            }
            Lane::Idle => stats.pokes += 1,
        }
        Ok(())
    }
}
