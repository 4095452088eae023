//! What is sent of records that are refused: of those of a topic a dead letter, of a caller's nothing.

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
    /// The dead letters of records that are refused, and what their senders are told. Whether an order
    /// of the same id was let in before is asked of the store at once for all of them; a record of which
    /// that is unknown is to be delivered again.
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

    /// Whom the status `rejected` of a refused record is told, and where: the id and the topic that its
    /// application has written. `None` where they cannot be read, where the topic is not allowed, and
    /// where an order of this id is let in now: that one's statuses go on.
    fn sender(&self, record: &InputRecord, admitted: &HashSet<&OrderId>) -> Option<Sender> {
        let (id, topic) = OrderEvent::sender(record.value.as_deref())?;
        let is_allowed = topic.as_ref().is_none_or(|topic| {
            topics::is_reply_topic(topic) && self.settings.reply_topics.contains(topic)
        });
        (is_allowed && !admitted.contains(&id)).then_some((id, topic))
    }

    /// What is sent of a record that the store refuses: of a caller's nothing, who has the answer.
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
