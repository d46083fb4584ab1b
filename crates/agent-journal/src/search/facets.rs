//! Counts results by agent, project, model and month.

use std::collections::HashMap;

use jiff::tz::TimeZone;

use super::answer::{Counts, Facet, Options};
use super::gather::Group;
use super::run::Search;
use crate::error::Result;
use crate::store::Facts;

/// Values told of each facet, the most frequent.
const MOST: usize = 20;

impl Search<'_> {
    pub(super) fn facets(
        &self,
        groups: &[Group],
        options: &Options,
    ) -> Result<Vec<(Facet, Counts)>> {
        if options.facets.is_empty() {
            return Ok(Vec::new());
        }
        let tellings: Vec<u64> = groups.iter().map(|group| group.telling).collect();
        let facts = self.store.facts_by_telling(&tellings)?;
        let counted = options.facets.iter().map(|facet| {
            let mut counts: HashMap<String, u64> = HashMap::new();
            for facts in groups.iter().filter_map(|group| facts.get(&group.telling)) {
                *counts.entry(value(*facet, facts, &options.zone)).or_default() += 1;
            }
            let mut counts: Counts = counts.into_iter().collect();
            match facet {
                Facet::Month => counts.sort_by(|a, b| b.0.cmp(&a.0)),
                _ => counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))),
            }
            counts.truncate(MOST);
            (*facet, counts)
        });
        Ok(counted.collect())
    }
}

fn value(facet: Facet, facts: &Facts, zone: &TimeZone) -> String {
    let value = match facet {
        Facet::Agent => Some(facts.agent.clone()),
        Facet::Project => facts.project.clone(),
        Facet::Model => facts.model.clone(),
        Facet::Month => facts.ended_at.and_then(|at| {
            let at = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
            Some(at.to_zoned(zone.clone()).strftime("%Y-%m").to_string())
        }),
    };
    value.unwrap_or_else(|| "–".to_owned())
}
