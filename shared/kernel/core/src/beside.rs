//! The outputs of an order that lie beside its record: which are to be stored, which were read.

use std::sync::Arc;

use serde_json::Value;

use crate::order::Order;
use crate::output::{Output, OutputDigest, Text};

impl Order {
    fn texts_beside(&self) -> impl Iterator<Item = (&OutputDigest, &Text)> {
        let outputs = self.steps.iter().filter_map(|step| step.state.output());
        outputs.filter_map(Output::beside)
    }

    fn texts_beside_mut(&mut self) -> impl Iterator<Item = (&OutputDigest, &mut Text)> {
        let steps = self.steps.iter_mut();
        steps.filter_map(|step| step.state.output_mut()?.beside_mut())
    }

    /// The digests of all outputs that lie beside the record, in the order of the steps.
    pub fn outputs_beside(&self) -> impl Iterator<Item = &OutputDigest> {
        self.texts_beside().map(|(digest, _)| digest)
    }

    /// The outputs that must be stored before this record or together with it, with their digests.
    pub fn new_outputs(&self) -> impl Iterator<Item = (&OutputDigest, &Arc<Value>)> {
        self.texts_beside().filter_map(|(digest, text)| match text {
            Text::New(value) => Some((digest, value)),
            Text::Unread | Text::Stored(_) => None,
        })
    }

    /// The outputs beside the record that have been read, with their digests.
    pub fn outputs_read(&self) -> impl Iterator<Item = (&OutputDigest, &Arc<Value>)> {
        let texts = self.texts_beside();
        texts.filter_map(|(digest, text)| Some((digest, text.value()?)))
    }

    /// Takes outputs that were read from the store. Those that the record does not name are ignored.
    pub fn take_outputs<'a>(
        &mut self,
        read: impl IntoIterator<Item = (&'a OutputDigest, &'a Arc<Value>)>,
    ) {
        for (digest, value) in read {
            for (_, text) in self
                .texts_beside_mut()
                .filter(|(named, _)| *named == digest)
            {
                if text.value().is_none() {
                    *text = Text::Stored(value.clone());
                }
            }
        }
    }

    /// The record as a store returns it: without the texts of the outputs beside it.
    #[must_use]
    pub fn without_texts(mut self) -> Self {
        for (_, text) in self.texts_beside_mut() {
            *text = Text::Unread;
        }
        self
    }

    /// The next version of a stored record, before any other change.
    pub(crate) fn successor(&self) -> Self {
        let mut next = Self {
            version: self.version.next(),
            ..self.clone()
        };
        for (_, text) in next.texts_beside_mut() {
            if let Text::New(value) = text {
                *text = Text::Stored(value.clone());
            }
        }
        next
    }
}
