//! Messages for refused records: a dead letter for a record of a topic, none for a caller's.

use std::collections::{BTreeSet, HashMap, HashSet};

use triad_core::submission::{Submission as OrderEvent, SubmissionRefusal};
use triad_core::{OrderId, topics};

use super::outgoing::{Sender, ToSend};
use super::submitted::Submitted;
use super::{Admitted, Source, Submission};
use crate::ports::{Bus, Clock, DefinitionStore, StateStore};
use crate::record::InputRecord;

impl<S, B, C> Submission<S, B, C>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    /// The dead letters of refused records, and the statuses for their applications. One read for all of them checks
    /// whether an order with the same id was let in before; if that is unknown for a record, it is redelivered.
    pub(super) async fn refuse(
        &self,
        records: &[InputRecord],
        admitted: &[(OrderId, Admitted)],
        answers: &mut [Submitted],
    ) -> Vec<ToSend> {
        let admitted: HashSet<&OrderId> = admitted.iter().map(|(id, _)| id).collect();
        let refused: Vec<_> = answers
            .iter()
            .zip(records)
            .enumerate()
            .filter_map(|(index, (answer, record))| match answer {
                Submitted::Refused(refusal) => {
                    Some((index, refusal.clone(), self.sender(record, &admitted)))
                }
                _ => None,
            })
            .collect();
        let senders = refused.iter().filter_map(|(_, _, sender)| sender.as_ref());
        let ids: BTreeSet<OrderId> = senders.map(|(id, _)| id.clone()).collect();
        let ids: Vec<OrderId> = ids.into_iter().collect();
        let stored: HashMap<OrderId, _> = match ids.is_empty() {
            true => HashMap::new(),
            false => {
                let found = self.store.load(ids.clone()).await;
                ids.into_iter().zip(found).collect()
            }
        };
        let now = self.clock.now();
        let mut letters = Vec::with_capacity(refused.len());
        for (index, refusal, sender) in refused {
            let sender = match sender.as_ref().and_then(|(id, _)| stored.get(id)) {
                Some(Err(e)) => {
                    answers[index] = e.clone().into();
                    continue;
                }
                Some(Ok(Some(_))) => None,
                Some(Ok(None)) | None => sender,
            };
            let record = &records[index];
            letters.push(ToSend::refused(index, record, &refusal, sender, now));
        }
        letters
    }

    /// Id and reply topic for the status `rejected` of a refused record, as its application has written them. `None`
    /// if they cannot be read, if the topic is not allowed, and if an order with this id is let in now: then that
    /// order's statuses continue.
    fn sender(&self, record: &InputRecord, admitted: &HashSet<&OrderId>) -> Option<Sender> {
        let (id, topic) = OrderEvent::sender(record.value.as_deref())?;
        let is_allowed = topic.as_ref().is_none_or(|topic| {
            topics::is_reply_topic(topic) && self.settings.reply_topics.contains(topic)
        });
        (is_allowed && !admitted.contains(&id)).then_some((id, topic))
    }

    /// Messages for a record that the store refuses: a dead letter, or none for a caller's, which gets the answer.
    pub(super) fn letter(
        &self,
        source: Source,
        records: &[InputRecord],
        index: usize,
        refusal: &SubmissionRefusal,
        sender: Option<Sender>,
    ) -> Option<ToSend> {
        let now = self.clock.now();
        let letter = || ToSend::refused(index, &records[index], refusal, sender, now);
        (source == Source::Topic).then(letter)
    }
}
