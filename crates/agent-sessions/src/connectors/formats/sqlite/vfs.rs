//! Presents a [`DatabaseSnapshot`] to SQLite as a file, through a read-only VFS.
//!
//! SQLite sees an immutable database without a log. It takes no locks and opens no other file. It
//! cannot write: every writing method is refused here, and the underlying files are opened for
//! reading.

#![expect(unsafe_code, reason = "SQLite calls a VFS through C functions and raw pointers")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::ffi;

use super::snapshot::DatabaseSnapshot;

/// Name of the VFS.
pub(super) const NAME: &CStr = c"aj-snapshot";

/// Maximum length of a file name in this VFS.
const MAX_NAME_BYTES: c_int = 64;

/// Snapshots that can be opened, by name.
static SNAPSHOTS: Mutex<Option<HashMap<String, Arc<DatabaseSnapshot>>>> = Mutex::new(None);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A snapshot that SQLite can open by name until this value is dropped.
pub(super) struct Offered {
    name: String,
}

impl Offered {
    /// Offers a snapshot to SQLite. `None` when SQLite rejects the VFS.
    pub(super) fn new(snapshot: Arc<DatabaseSnapshot>) -> Option<Self> {
        if !register_vfs() {
            return None;
        }
        let name = format!("snapshot-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        with_snapshots(|all| all.insert(name.clone(), snapshot));
        Some(Self { name })
    }

    pub(super) fn offered_name(&self) -> &str {
        &self.name
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        with_snapshots(|all| all.remove(&self.name));
    }
}

fn with_snapshots<T>(use_them: impl FnOnce(&mut HashMap<String, Arc<DatabaseSnapshot>>) -> T) -> T {
    let mut all = SNAPSHOTS.lock().unwrap_or_else(PoisonError::into_inner);
    use_them(all.get_or_insert_default())
}

/// Registers the VFS once. Returns whether it is registered.
fn register_vfs() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
            iVersion: 1,
            szOsFile: size_of::<SnapshotFile>() as c_int,
            mxPathname: MAX_NAME_BYTES,
            pNext: std::ptr::null_mut(),
            zName: NAME.as_ptr(),
            pAppData: std::ptr::null_mut(),
            xOpen: Some(vfs_open),
            xDelete: Some(vfs_delete),
            xAccess: Some(vfs_access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(vfs_randomness),
            xSleep: Some(vfs_sleep),
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
    xClose: Some(vfs_close),
    xRead: Some(vfs_read),
    xWrite: Some(vfs_write),
    xTruncate: Some(vfs_truncate),
    xSync: Some(vfs_sync),
    xFileSize: Some(file_size),
    xLock: Some(vfs_lock),
    xUnlock: Some(vfs_lock),
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

/// State of an open file, in memory that SQLite allocates.
#[repr(C)]
struct SnapshotFile {
    base: ffi::sqlite3_file,
    /// An `Arc` turned into a raw pointer; null when the file is not open.
    snapshot: *const DatabaseSnapshot,
}

/// Runs a VFS method and turns a panic into an error, because a panic must not cross into C.
fn catch_vfs_panic(run: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ffi::SQLITE_IOERR)
}

unsafe extern "C" fn vfs_open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    catch_vfs_panic(|| {
        let file = file.cast::<SnapshotFile>();
        // SAFETY: SQLite provides `szOsFile` bytes for the file. A file without methods is not
        // closed when opening fails.
        unsafe { (*file).base.pMethods = std::ptr::null() };
        // Only the database itself: no journal, no log, no temporary file.
        if name.is_null() || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: a non-null name is a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let Some(snapshot) = with_snapshots(|all| all.get(&*name).cloned()) else {
            return ffi::SQLITE_CANTOPEN;
        };
        // SAFETY: as above; `file_close` takes the pointer back. `flags_out` may be null.
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

unsafe extern "C" fn vfs_close(file: *mut ffi::sqlite3_file) -> c_int {
    catch_vfs_panic(|| {
        let file = file.cast::<SnapshotFile>();
        // SAFETY: a file with methods was opened by `vfs_open`, and is closed once.
        unsafe {
            let snapshot = std::mem::replace(&mut (*file).snapshot, std::ptr::null());
            if !snapshot.is_null() {
                drop(Arc::from_raw(snapshot));
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn vfs_read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    catch_vfs_panic(|| {
        let (Ok(length), Ok(offset)) = (usize::try_from(length), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_READ;
        };
        // SAFETY: the file is open, and the buffer has `length` bytes. SQLite may not have
        // initialized them, so they are zeroed before a slice is made of them.
        let (snapshot, buffer) = unsafe {
            std::ptr::write_bytes(buffer.cast::<u8>(), 0, length);
            let snapshot = &*(*file.cast::<SnapshotFile>()).snapshot;
            (snapshot, std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length))
        };
        match snapshot.read_page_bytes(buffer, offset) {
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
    catch_vfs_panic(|| {
        // SAFETY: the file is open, and SQLite provides a valid pointer for the size.
        unsafe { *size = (*(*file.cast::<SnapshotFile>()).snapshot).database_size().cast_signed() };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn vfs_write(
    _file: *mut ffi::sqlite3_file,
    _bytes: *const c_void,
    _length: c_int,
    _offset: ffi::sqlite3_int64,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn vfs_truncate(
    _file: *mut ffi::sqlite3_file,
    _size: ffi::sqlite3_int64,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn vfs_sync(_file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn vfs_lock(_file: *mut ffi::sqlite3_file, _kind: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    _file: *mut ffi::sqlite3_file,
    is_reserved: *mut c_int,
) -> c_int {
    // SAFETY: SQLite provides a valid pointer for the result.
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

unsafe extern "C" fn vfs_delete(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _sync: c_int,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn vfs_access(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _flags: c_int,
    is_there: *mut c_int,
) -> c_int {
    // SAFETY: SQLite provides a valid pointer for the result. No file exists beside a snapshot.
    unsafe { *is_there = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    catch_vfs_panic(|| {
        // SAFETY: the name is a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
        if usize::try_from(length).is_ok_and(|length| name.len() > length) {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: `out` has `length` bytes, which is enough.
        unsafe { std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
        ffi::SQLITE_OK
    })
}

/// Returns 0 random bytes: reading needs no randomness.
unsafe extern "C" fn vfs_randomness(
    _vfs: *mut ffi::sqlite3_vfs,
    _length: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}

unsafe extern "C" fn vfs_sleep(_vfs: *mut ffi::sqlite3_vfs, _microseconds: c_int) -> c_int {
    0
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: SQLite provides a valid pointer for the time, which is always the beginning of 1970.
    unsafe { *days = 2_440_587.5 };
    ffi::SQLITE_OK
}
