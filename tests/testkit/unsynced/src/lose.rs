//! Reverts unsynced writes after the process has died.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::before_image::{BeforeImage, FileId};

/// Number of bytes that a disk writes atomically.
const PAGE: u64 = 4096;

/// How much [`lose`] has reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Files with writes that were not synced.
    pub files: usize,
    /// Pages of 4 KiB that were written since the last sync of their file.
    pub unsynced: usize,
    /// Number of unsynced pages that were set back to their content at that sync.
    pub pages: usize,
}

/// Reverts a random part, chosen by `seed`, of the unsynced writes to the files below the directory `data`. `notes` is
/// the directory of the [`Journal`](crate::Journal); all its files are deleted. With the same files and notes, the
/// same seed reverts the same part. The process must have ended.
///
/// # Errors
/// The error of the operating system if a file or a note cannot be read, written or deleted.
pub fn lose(data: &Path, notes: &Path, seed: u64) -> io::Result<Lost> {
    let mut random = StdRng::seed_from_u64(seed);
    // The probability that a page is lost: a disk may have written all or none of the pages, and mostly some.
    let share = [1.0, 0.9, 0.5][random.random_range(0..3)];
    let mut generations: BTreeMap<FileId, BTreeMap<u64, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(notes)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some((id, generation)) = name.to_str().and_then(FileId::of_name) {
            let of_file = generations.entry(id).or_default();
            of_file.insert(generation, entry.path());
        }
    }
    let mut lost = Lost::default();
    for path in files(data)? {
        let meta = fs::metadata(&path)?;
        let id = FileId {
            device: meta.dev(),
            inode: meta.ino(),
        };
        let mut all = Vec::new();
        for notes in generations
            .remove(&id)
            .into_iter()
            .flat_map(BTreeMap::into_values)
        {
            all.extend(BeforeImage::all(&fs::read(notes)?));
        }
        if !all.is_empty() {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            take_back(&file, &all, share, &mut random, &mut lost)?;
        }
    }
    for entry in fs::read_dir(notes)? {
        fs::remove_file(entry?.path())?;
    }
    Ok(lost)
}

/// The regular files below a directory, sorted by path.
fn files(below: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut directories = vec![below.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                found.insert(entry.path());
            }
        }
    }
    Ok(found)
}

fn take_back(
    file: &File,
    notes: &[BeforeImage],
    share: f64,
    random: &mut StdRng,
    lost: &mut Lost,
) -> io::Result<()> {
    let length = file.metadata()?.len();
    let pages = at_last_sync(file, notes, length)?;
    lost.files += 1;
    lost.unsynced += pages.len();
    for (page, bytes) in pages {
        if random.random_bool(share) {
            file.write_all_at(&bytes, page * PAGE)?;
            lost.pages += 1;
        }
    }
    let was = notes.first().map_or(length, |note| note.length);
    let kept = if random.random_bool(share) {
        was
    } else {
        length
    };
    file.set_len(kept)
}

/// The changed pages as they were at the last sync: all changes are reverted, the last one first. A page at the end of
/// the file is padded with zeros.
fn at_last_sync(
    file: &File,
    notes: &[BeforeImage],
    length: u64,
) -> io::Result<BTreeMap<u64, Vec<u8>>> {
    let mut pages = BTreeMap::new();
    for note in notes.iter().rev() {
        for page in note.offset / PAGE..note.end.div_ceil(PAGE) {
            let start = page * PAGE;
            let bytes = match pages.entry(page) {
                Entry::Occupied(changed) => changed.into_mut(),
                Entry::Vacant(first) => {
                    let there = length.saturating_sub(start).min(PAGE);
                    let mut bytes = vec![0; PAGE as usize];
                    file.read_exact_at(&mut bytes[..there as usize], start)?;
                    first.insert(bytes)
                }
            };
            for (at, byte) in (start..).zip(bytes.iter_mut()) {
                if at >= note.length {
                    *byte = 0;
                } else if at >= note.offset && at < note.offset + note.bytes.len() as u64 {
                    *byte = note.bytes[(at - note.offset) as usize];
                }
            }
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::Journal;

    struct Disk {
        data: tempfile::TempDir,
        notes: tempfile::TempDir,
    }

    impl Disk {
        fn new() -> Self {
            let directory = || tempfile::tempdir().unwrap();
            let (data, notes) = (directory(), directory());
            Self { data, notes }
        }

        fn journal(&self) -> Journal {
            Journal::new(self.notes.path().to_owned())
        }

        fn file(&self) -> File {
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(false).read(true).write(true);
            options.open(self.data.path().join("f")).unwrap()
        }

        fn write(&self, journal: &Journal, bytes: &[u8], at: u64) {
            let file = self.file();
            let write = || file.write_all_at(bytes, at).unwrap();
            let to = at + bytes.len() as u64;
            journal.change(file.as_fd(), at, to, write).unwrap();
        }

        fn sync(&self, journal: &Journal, is_done: bool) {
            let file = self.file();
            journal.sync(file.as_fd(), || (), |()| is_done).unwrap();
        }

        /// The content of the file if everything that may be lost is lost.
        fn all_lost(&self) -> Vec<u8> {
            let seed = (0..).find(|seed| {
                let mut random = StdRng::seed_from_u64(*seed);
                random.random_range(0..3) == 0
            });
            lose(self.data.path(), self.notes.path(), seed.unwrap()).unwrap();
            fs::read(self.data.path().join("f")).unwrap()
        }
    }

    #[test]
    fn what_was_synced_stays_and_what_was_written_after_it_goes() {
        let disk = Disk::new();
        let journal = disk.journal();
        disk.write(&journal, &[1; 9_000], 0);
        disk.sync(&journal, true);
        disk.write(&journal, &[2; 100], 50);
        disk.write(&journal, &[3; 5_000], 8_000);
        disk.write(&journal, &[4; 10], 60);
        assert_eq!(disk.all_lost(), [1; 9_000]);
    }

    #[test]
    fn a_sync_that_did_not_come_back_saves_nothing() {
        let disk = Disk::new();
        let journal = disk.journal();
        disk.write(&journal, b"abc", 0);
        disk.sync(&journal, false);
        disk.write(&journal, b"d", 3);
        assert_eq!(disk.all_lost(), b"");
    }

    #[test]
    fn what_was_cut_off_comes_back() {
        let disk = Disk::new();
        let journal = disk.journal();
        disk.write(&journal, b"abcdef", 0);
        disk.sync(&journal, true);
        let file = disk.file();
        let cut = || file.set_len(2).unwrap();
        journal.change(file.as_fd(), 2, 6, cut).unwrap();
        disk.write(&journal, b"xyz", 2);
        assert_eq!(disk.all_lost(), b"abcdef");
    }

    #[test]
    fn what_an_earlier_process_did_not_sync_is_lost_with_the_rest() {
        let disk = Disk::new();
        disk.write(&disk.journal(), b"abc", 0);
        disk.write(&disk.journal(), b"xyz", 0);
        assert_eq!(disk.all_lost(), b"");
    }

    #[test]
    fn a_part_is_lost_page_by_page() {
        let disk = Disk::new();
        let journal = disk.journal();
        disk.write(&journal, &[1; 40 * PAGE as usize], 0);
        disk.sync(&journal, true);
        disk.write(&journal, &[2; 40 * PAGE as usize], 0);
        let lost = lose(disk.data.path(), disk.notes.path(), 3).unwrap();
        let left = fs::read(disk.data.path().join("f")).unwrap();
        let pages = || left.chunks(PAGE as usize);
        assert!(pages().all(|page| page.iter().all(|byte| *byte == page[0])));
        let old = pages().filter(|page| page[0] == 1).count();
        assert_eq!((lost.files, lost.unsynced, lost.pages), (1, 40, old));
        assert!(old > 0, "{lost:?}");
    }
}
