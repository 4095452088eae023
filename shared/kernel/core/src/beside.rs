//! The outputs of an order that lie beside its record: which are to be stored, which were read.

use std::sync::Arc;

use serde_json::Value;

use crate::order::Order;
use crate::output::{Content, Output, OutputDigest};

impl Order {
    fn contents_beside(&self) -> impl Iterator<Item = (&OutputDigest, &Content)> {
        let outputs = self.steps.iter().flat_map(|step| step.outputs());
        outputs.filter_map(Output::beside)
    }

    fn contents_beside_mut(&mut self) -> impl Iterator<Item = (&OutputDigest, &mut Content)> {
        let outputs = self.steps.iter_mut().flat_map(|step| step.outputs_mut());
        outputs.filter_map(Output::beside_mut)
    }

    /// The digests of all outputs that lie beside the record, in the order of the steps.
    pub fn outputs_beside(&self) -> impl Iterator<Item = &OutputDigest> {
        self.contents_beside().map(|(digest, _)| digest)
    }

    /// The outputs that must be stored before this record or together with it, with their digests.
    pub fn new_outputs(&self) -> impl Iterator<Item = (&OutputDigest, &Arc<Value>)> {
        self.contents_beside()
            .filter_map(|(digest, content)| match content {
                Content::New(value) => Some((digest, value)),
                Content::Unread | Content::Stored(_) => None,
            })
    }

    /// The outputs beside the record that have been read, with their digests.
    pub fn outputs_read(&self) -> impl Iterator<Item = (&OutputDigest, &Arc<Value>)> {
        let contents = self.contents_beside();
        contents.filter_map(|(digest, content)| Some((digest, content.value()?)))
    }

    /// Takes outputs that were read from the store. Those that the record does not name are ignored.
    pub fn take_outputs<'a>(
        &mut self,
        read: impl IntoIterator<Item = (&'a OutputDigest, &'a Arc<Value>)>,
    ) {
        for (digest, value) in read {
            for (_, content) in self
                .contents_beside_mut()
                .filter(|(named, _)| *named == digest)
            {
                if content.value().is_none() {
                    *content = Content::Stored(value.clone());
                }
            }
        }
    }

    /// The record as a store returns it: without the contents of the outputs beside it.
    #[must_use]
    pub fn without_contents(mut self) -> Self {
        for (_, content) in self.contents_beside_mut() {
            *content = Content::Unread;
        }
        self
    }

    /// The next version of a stored record, before any other change.
    pub(crate) fn successor(&self) -> Self {
        let mut next = Self {
            version: self.version.next(),
            ..self.clone()
        };
        for (_, content) in next.contents_beside_mut() {
            if let Content::New(value) = content {
                *content = Content::Stored(value.clone());
            }
        }
        next
    }
}
