//! Presents a [`Snapshot`] to SQLite as a file: a VFS that only reads.
//!
//! SQLite sees an immutable database without a log. It takes no locks, asks for no other file, and
//! has no way to write: every method that could is refused here, and the files below are opened
//! for reading.

#![expect(unsafe_code, reason = "SQLite calls a VFS through C functions and raw pointers")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::ffi;

use super::snapshot::Snapshot;

/// The name of the VFS.
pub(super) const NAME: &CStr = c"aj-snapshot";

/// The longest name that a file of this VFS has.
const MAX_NAME_BYTES: c_int = 64;

/// The snapshots that may be opened, by name.
static SNAPSHOTS: Mutex<Option<HashMap<String, Arc<Snapshot>>>> = Mutex::new(None);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A snapshot that SQLite can open by its name, until this is dropped.
pub(super) struct Offered {
    name: String,
}

impl Offered {
    /// Offers a snapshot to SQLite; `None` when SQLite does not take the VFS.
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Option<Self> {
        if !register() {
            return None;
        }
        let name = format!("snapshot-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        with_snapshots(|all| all.insert(name.clone(), snapshot));
        Some(Self { name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        with_snapshots(|all| all.remove(&self.name));
    }
}

fn with_snapshots<T>(use_them: impl FnOnce(&mut HashMap<String, Arc<Snapshot>>) -> T) -> T {
    let mut all = SNAPSHOTS.lock().unwrap_or_else(PoisonError::into_inner);
    use_them(all.get_or_insert_default())
}

/// Makes the VFS known to SQLite, once. Returns whether SQLite knows it.
fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
            iVersion: 1,
            szOsFile: size_of::<SnapshotFile>() as c_int,
            mxPathname: MAX_NAME_BYTES,
            pNext: std::ptr::null_mut(),
            zName: NAME.as_ptr(),
            pAppData: std::ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: None,
            xCurrentTimeInt64: None,
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        // SAFETY: the structure and its name live as long as the program, and it is registered
        // once. 0: it does not become the default.
        unsafe { ffi::sqlite3_vfs_register(vfs, 0) == ffi::SQLITE_OK }
    })
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// What SQLite keeps of an open file, in memory of its own.
#[repr(C)]
struct SnapshotFile {
    base: ffi::sqlite3_file,
    /// An `Arc` that was turned into a pointer; null when the file is not open.
    snapshot: *const Snapshot,
}

/// Runs what a method does; a panic must not cross into C.
fn guarded(run: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ffi::SQLITE_IOERR)
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    guarded(|| {
        let file = file.cast::<SnapshotFile>();
        // SAFETY: SQLite hands over `szOsFile` bytes for the file. Without methods it is not
        // closed when opening fails.
        unsafe { (*file).base.pMethods = std::ptr::null() };
        // Only the database itself: no journal, no log, no temporary file.
        if name.is_null() || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: a name that is not null is a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let Some(snapshot) = with_snapshots(|all| all.get(&*name).cloned()) else {
            return ffi::SQLITE_CANTOPEN;
        };
        // SAFETY: as above; the pointer is given back by `close`. `flags_out` may be null.
        unsafe {
            (*file).snapshot = Arc::into_raw(snapshot);
            (*file).base.pMethods = &raw const METHODS;
            if !flags_out.is_null() {
                *flags_out = ffi::SQLITE_OPEN_READONLY | ffi::SQLITE_OPEN_MAIN_DB;
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(|| {
        let file = file.cast::<SnapshotFile>();
        // SAFETY: a file with methods was opened by `open`, and is closed once.
        unsafe {
            let snapshot = std::mem::replace(&mut (*file).snapshot, std::ptr::null());
            if !snapshot.is_null() {
                drop(Arc::from_raw(snapshot));
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    guarded(|| {
        let (Ok(length), Ok(offset)) = (usize::try_from(length), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_READ;
        };
        // SAFETY: the file is open, and the buffer has `length` bytes that SQLite may not have
        // initialized: they are filled with zeros before they are seen.
        let (snapshot, buffer) = unsafe {
            std::ptr::write_bytes(buffer.cast::<u8>(), 0, length);
            let snapshot = &*(*file.cast::<SnapshotFile>()).snapshot;
            (snapshot, std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length))
        };
        match snapshot.read(buffer, offset) {
            Ok(read) if read == length => ffi::SQLITE_OK,
            Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
            Err(_) => ffi::SQLITE_IOERR_READ,
        }
    })
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    guarded(|| {
        // SAFETY: the file is open, and SQLite hands over a place for the size.
        unsafe { *size = (*(*file.cast::<SnapshotFile>()).snapshot).size().cast_signed() };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn write(
    _file: *mut ffi::sqlite3_file,
    _bytes: *const c_void,
    _length: c_int,
    _offset: ffi::sqlite3_int64,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn truncate(_file: *mut ffi::sqlite3_file, _size: ffi::sqlite3_int64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn sync(_file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_file: *mut ffi::sqlite3_file, _kind: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    _file: *mut ffi::sqlite3_file,
    is_reserved: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands over a place for the answer.
    unsafe { *is_reserved = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_IMMUTABLE
}

unsafe extern "C" fn delete(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _sync: c_int,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn access(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _flags: c_int,
    is_there: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands over a place for the answer. There is nothing beside a snapshot.
    unsafe { *is_there = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: the name is a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
        if usize::try_from(length).is_ok_and(|length| name.len() > length) {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: `out` has room for `length` bytes, which is enough.
        unsafe { std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
        ffi::SQLITE_OK
    })
}

/// Nothing that is read needs randomness; SQLite is told that it got none.
unsafe extern "C" fn randomness(
    _vfs: *mut ffi::sqlite3_vfs,
    _length: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}

unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, _microseconds: c_int) -> c_int {
    0
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: SQLite hands over a place for the time: here always the beginning of 1970.
    unsafe { *days = 2_440_587.5 };
    ffi::SQLITE_OK
}
