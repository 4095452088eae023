//! A note with the bytes that one change of a file replaces, and the names of the files of notes.

use rustix::fs::Stat;

/// Identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) const fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// Name of the file with the notes of this generation.
    pub(crate) fn name(self, generation: u64) -> String {
        format!("{}-{}-{generation}", self.device, self.inode)
    }

    /// The file and the generation from the name of a file of notes; `None` for any other name.
    pub(crate) fn of_name(name: &str) -> Option<(Self, u64)> {
        let mut parts = name.split('-').map(|part| part.parse().ok());
        let (device, inode, generation) = (parts.next()??, parts.next()??, parts.next()??);
        Some((Self { device, inode }, generation))
    }
}

/// The replaced bytes of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeforeImage {
    /// Where the change begins, in bytes from the file's beginning.
    pub(crate) offset: u64,
    /// Where the change ends, exclusive.
    pub(crate) end: u64,
    /// The file's length before the change.
    pub(crate) length: u64,
    /// The replaced bytes from `offset` on; fewer than were written if the file was shorter.
    pub(crate) bytes: Vec<u8>,
}

const HEAD: usize = 32;

impl BeforeImage {
    /// The encoding: offset, end, length and number of bytes as `u64`, little endian, and the bytes.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut form = Vec::with_capacity(HEAD + self.bytes.len());
        for number in [self.offset, self.end, self.length, self.bytes.len() as u64] {
            form.extend(number.to_le_bytes());
        }
        form.extend(&self.bytes);
        form
    }

    /// The notes in a file. The last one may be incomplete; its change was then not made.
    pub(crate) fn all(mut form: &[u8]) -> Vec<Self> {
        let mut notes = Vec::new();
        while let Some((head, rest)) = form.split_first_chunk::<HEAD>() {
            let number = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&head[at..at + 8]);
                u64::from_le_bytes(bytes)
            };
            let count = usize::try_from(number(24)).unwrap_or(usize::MAX);
            let Some((bytes, rest)) = rest.split_at_checked(count) else {
                break;
            };
            notes.push(Self {
                offset: number(0),
                end: number(8),
                length: number(16),
                bytes: bytes.to_vec(),
            });
            form = rest;
        }
        notes
    }
}
