//! What is written, read back by its format. The real `perf` reads it in asm-tests.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::addr::CodeAddr;
use crate::arch::CallShape;
use crate::deopt::ExitStubs;
use crate::engine::{Engine, Observer};
use crate::memory::testing::objects as compiled;
use crate::publish::{GracePeriod, NeverStopped};
use crate::sequence::{Sequence, arg, result};
use crate::site::Module;

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("patchpoint-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

extern "C" fn callee(x: u64) -> u64 {
    x
}

/// An engine with a live module whose site 101 was patched twice and invalidated.
fn watched(observer: impl Observer + 'static) -> (Engine, Module) {
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let builder = Engine::builder().world(NeverStopped).exits(exit_stubs);
    let engine = builder.observer(observer).build().unwrap();
    let resolve = |name: &str| (name == "callee").then_some(CodeAddr::new(callee as *const () as u64));
    let code = engine.load(compiled::LIVE_STRESS, resolve).unwrap();
    let shape = CallShape::any_reg(compiled::any_reserved(1)).result().args(1);
    let registration = engine.registration(code).live();
    // SAFETY: what is told is true of the object's code, or refused.
    let module =
        unsafe { registration.register(|record| (record.id().get() == 101).then_some(shape)) }.unwrap();
    for number in [5, 6] {
        let sequence = Sequence::new().mov(result(), arg(0)).add(result(), number);
        engine.patch(101, &sequence).unwrap();
    }
    let site = module.sites().next().unwrap();
    engine.invalidate_site(&site).unwrap();
    (engine, module)
}

/// Name, start and size of what must be there: functions, and what the engine has made for the
/// site.
fn expected(engine: &Engine, module: &Module) -> HashMap<String, (u64, Option<u64>)> {
    let functions = module.functions().map(|function| {
        let (start, len) = (function.addr().get(), u64::from(function.len().get()));
        (function.name().to_owned(), (start, Some(len)))
    });
    let site = module.sites().next().unwrap();
    let prefix = format!("{}{}.id101.", site.function().name(), site.offset());
    let made = ["stub1", "stub2", "deopt-exit-stub3"].map(|what| (format!("{prefix}{what}"), (0, None)));
    assert!(engine.stub_bytes(&site) > 0);
    functions.chain(made).collect()
}

#[test]
fn the_perf_map_has_a_line_for_each_piece_of_code() {
    let folder = Folder::new("perf-map");
    let map = PerfMap::at(folder.0.join("perf.map")).unwrap();
    let (engine, module) = watched(map.clone());
    let expected = expected(&engine, &module);
    let text = fs::read_to_string(map.path()).unwrap();
    let mut found = 0;
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let mut hex = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let (start, len) = (hex(), hex());
        let name = words.next().unwrap();
        let Some((at, size)) = expected.get(name) else {
            continue;
        };
        found += 1;
        match size {
            Some(size) => assert_eq!((start, len), (*at, *size), "{name}"),
            None => assert!(engine.function_at(CodeAddr::new(start)).is_none() && len > 0),
        }
    }
    assert_eq!((found, map.lost()), (expected.len(), 0));
    assert_eq!(text.lines().count(), expected.len());
}

/// Makes such a file, and abandons it.
type Attempt<'a> = Box<dyn Fn() -> std::io::Result<()> + 'a>;

/// Where either file would be.
fn attempts(folder: &Folder) -> [(PathBuf, Attempt<'_>); 2] {
    let map = folder.0.join("perf.map");
    let dump = folder.0.join(format!("jit-{}.dump", std::process::id()));
    let at = map.clone();
    [
        (map, Box::new(move || PerfMap::at(&at).map(drop))),
        (dump, Box::new(|| JitDump::create_in(&folder.0).map(drop))),
    ]
}

/// Whoever guesses the names misdirects nobody by them: neither into another file, nor to where he
/// can read and change them, nor to where one waits.
#[test]
fn what_others_have_put_there_is_refused() {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    let folder = Folder::new("planted");
    let target = folder.0.join("target");
    for (path, attempt) in attempts(&folder) {
        fs::write(&target, "kept").unwrap();
        let is_refused = |what: &str| {
            assert!(attempt().is_err(), "{path:?}: {what}");
            fs::remove_file(&path).unwrap();
        };
        symlink(&target, &path).unwrap();
        is_refused("a symbolic link");
        symlink(folder.0.join("nothing"), &path).unwrap();
        is_refused("a symbolic link to nothing");
        fs::hard_link(&target, &path).unwrap();
        is_refused("a hard link");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        is_refused("a pipe");
        fs::write(&path, "theirs").unwrap();
        // SAFETY: takes nothing and cannot fail.
        match unsafe { libc::geteuid() } {
            0 => {
                chown(&path, Some(65534), None).unwrap();
                assert!(attempt().is_err(), "{path:?}: a file of another user");
                assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
            }
            _ => eprintln!("left out: only root can give a file to another user"),
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        assert!(!folder.0.join("nothing").exists());
        attempt().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{path:?}");
    }
}

/// Process numbers come again, in containers with the first process.
#[test]
fn what_an_earlier_process_has_left_is_used() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let folder = Folder::new("left");
    for (path, attempt) in attempts(&folder) {
        fs::write(&path, "1000 10 old\n".repeat(100)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        attempt().unwrap();
        let found = fs::metadata(&path).unwrap();
        match path.extension().unwrap().to_str() {
            Some("map") => assert_eq!(found.len(), 1200),
            _ => assert_eq!((found.len(), found.mode() & 0o777), (40, 0o600)),
        }
    }
}

#[test]
fn two_dumps_do_not_write_one_file() {
    let folder = Folder::new("jitdump-twice");
    let dump = JitDump::create_in(&folder.0).unwrap();
    let refused = JitDump::create_in(&folder.0).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(fs::metadata(dump.path()).unwrap().len() >= 40);
    // Other tests start processes, which have the file open for a moment.
    drop(dump);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Err(error) = JitDump::create_in(&folder.0) {
        assert!(std::time::Instant::now() < until, "{error}");
        std::thread::yield_now();
    }
}

/// The numbers of a file, in this machine's order.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        head
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take(8).try_into().unwrap())
    }
}

#[test]
fn the_jitdump_has_the_bytes_of_each_piece_of_code() {
    let folder = Folder::new("jitdump");
    let dump = JitDump::create_in(&folder.0).unwrap();
    let (engine, module) = watched(dump.clone());
    let mut expected = expected(&engine, &module);
    let file = fs::read(dump.path()).unwrap();
    let mut reader = Reader(&file);
    assert_eq!((reader.u32(), reader.u32(), reader.u32()), (0x4a69_5444, 1, 40));
    let (machine, _, pid) = (reader.u32(), reader.u32(), reader.u32());
    assert_eq!(pid, std::process::id());
    let (mut last, flags) = (reader.u64(), reader.u64());
    assert!(machine > 0 && flags == 0);
    let mut number = 0;
    while !reader.0.is_empty() {
        let (id, len, time) = (reader.u32(), reader.u32(), reader.u64());
        let mut record = Reader(reader.take(len as usize - 16));
        assert!(id == 0 && time >= last);
        last = time;
        assert_eq!(record.u32(), pid);
        let _thread = record.u32();
        let (vma, start, size) = (record.u64(), record.u64(), record.u64());
        assert_eq!((vma, record.u64()), (start, number));
        number += 1;
        let name_len = record.0.iter().position(|byte| *byte == 0).unwrap();
        let name = std::str::from_utf8(record.take(name_len)).unwrap();
        record.take(1);
        assert_eq!(record.0.len() as u64, size);
        let (at, known) = expected.remove(name).unwrap();
        if let Some(known) = known {
            let function = module.function_at(CodeAddr::new(at)).unwrap();
            assert_eq!((start, size), (at, known), "{}", function.name());
            let sites = function.sites().collect::<Vec<_>>();
            let unpatched = |offset: usize| {
                let addr = CodeAddr::new(at + offset as u64);
                !sites.iter().any(|site| site.range().contains(addr))
            };
            let now = executable(at, size as usize);
            let same = (0..now.len()).all(|offset| !unpatched(offset) || now[offset] == record.0[offset]);
            assert!(same, "{name}");
        } else if !name.ends_with("stub1") {
            // What is in use has these bytes still.
            assert_eq!(executable(start, size as usize), record.0, "{name}");
        }
    }
    assert!(expected.is_empty() && dump.lost() == 0, "{:?}", expected.keys());
}

/// Bytes of code as they are executed.
fn executable(at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut memory = fs::File::open("/proc/self/mem").unwrap();
    std::io::Seek::seek(&mut memory, std::io::SeekFrom::Start(at)).unwrap();
    std::io::Read::read_exact(&mut memory, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_marker_can_be_seen_and_holds_nothing() {
    let folder = Folder::new("jitdump-marker");
    let dump = JitDump::create_in(&folder.0).unwrap();
    let maps = || fs::read_to_string("/proc/self/maps").unwrap();
    let name = dump.path().to_str().unwrap().to_owned();
    let line = maps()
        .lines()
        .find(|line| line.ends_with(&name))
        .unwrap()
        .to_owned();
    assert!(line.contains(" r-xp "), "{line}");
    let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let mut memory = fs::File::open("/proc/self/mem").unwrap();
    std::io::Seek::seek(&mut memory, std::io::SeekFrom::Start(start)).unwrap();
    // It is behind the end of the file.
    assert!(std::io::Read::read_exact(&mut memory, &mut [0]).is_err());
    drop(dump);
    assert!(!maps().contains(&name));
}

#[cfg(all(
    feature = "backtrace",
    not(all(target_arch = "powerpc64", target_endian = "big"))
))]
#[test]
fn gdb_forgets_what_is_freed() {
    let gdb = Gdb::new();
    let (engine, module) = watched(gdb.clone());
    // Two stubs of sequences and an exit stub, whatever was armed, and the module.
    let told = format!("{gdb:?}");
    assert!(
        told.contains("modules: 1") && told.contains("placed: 3"),
        "{told}"
    );
    // SAFETY: no thread is in the module's code.
    let grace_period = unsafe { GracePeriod::promise() };
    assert_eq!(engine.reclaim(&grace_period).unwrap(), 1);
    assert!(format!("{gdb:?}").contains("placed: 2"), "{gdb:?}");
    engine.unregister(module, &grace_period).unwrap();
    assert_eq!(format!("{gdb:?}"), "Gdb { modules: 0, placed: 0 }");
}

#[cfg(feature = "backtrace")]
#[test]
fn the_unwinder_forgets_what_is_freed() {
    let unwinder = Unwinder::new();
    let (engine, module) = watched(unwinder.clone());
    let told = format!("{unwinder:?}");
    assert!(
        told.contains("modules: 1") && told.contains("placed: 3"),
        "{told}"
    );
    // SAFETY: no thread is in the module's code.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    let told = format!("{unwinder:?}");
    assert!(told.contains("modules: 0"), "{told}");
}

#[test]
fn modules_that_are_gone_do_no_harm() {
    let folder = Folder::new("perf-map-gone");
    let map = PerfMap::at(folder.0.join("perf.map")).unwrap();
    let (engine, module) = watched(map.clone());
    let before = fs::read_to_string(map.path()).unwrap();
    // SAFETY: no thread is in the module's code.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    assert_eq!(fs::read_to_string(map.path()).unwrap(), before);
}

/// What a subscriber of `tracing` is told: each event with its level, and its fields as text.
#[cfg(feature = "tracing")]
mod traced {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    pub(super) type ToldEvents = Arc<Mutex<Vec<Fields>>>;

    #[derive(Default)]
    pub(super) struct Fields(pub(super) BTreeMap<&'static str, String>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    pub(super) struct Listener(pub(super) ToldEvents);

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "patchpoint"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            fields.0.insert("level", event.metadata().level().to_string());
            self.0.lock().push(fields);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }
}

#[cfg(feature = "tracing")]
#[test]
fn tracing_tells_each_event_with_site_generation_and_times() {
    let told = traced::ToldEvents::default();
    // For the whole process, of which no other test traces.
    ::tracing::subscriber::set_global_default(traced::Listener(told.clone())).unwrap();
    let (engine, module) = watched(Tracing);
    // The site has been invalidated.
    assert!(engine.patch(101, &Sequence::new().mov(result(), arg(0))).is_err());
    // SAFETY: no thread is in the module's code.
    let grace_period = unsafe { GracePeriod::promise() };
    assert_eq!(engine.reclaim(&grace_period).unwrap(), 1);
    engine.unregister(module, &grace_period).unwrap();
    let told = told.lock();
    let named = |name: &str| -> Vec<_> { told.iter().filter(|event| event.0["message"] == name).collect() };
    assert_eq!([named("registered").len(), named("unregistered").len()], [1, 1]);
    assert!(named("placed").len() >= 3);
    for (generation, event) in (1..).zip(named("changed")) {
        let site = &event.0["site"];
        assert!(site.contains(" 101 at any_1"), "{site}");
        assert_eq!(event.0["generation"], generation.to_string());
        let nanos = |field| event.0[field].parse::<u64>().unwrap();
        assert!(nanos("prepared_ns") > 0 && nanos("committed_ns") > 0);
    }
    let became: Vec<_> = named("changed")
        .iter()
        .map(|event| event.0["became"].clone())
        .collect();
    assert_eq!(became, ["Patched", "Patched", "Invalidated"]);
    let [refused] = named("refused")[..] else {
        panic!("one was refused");
    };
    assert_eq!((&*refused.0["level"], &*refused.0["generation"]), ("WARN", "3"));
    assert!(refused.0["site"].contains(" 101 at any_1") && refused.0["error"].contains("invalidated"));
    assert!(refused.0["after_ns"].parse::<u64>().unwrap() > 0);
    let reclaimed = named("reclaimed");
    assert!(reclaimed.len() >= 3);
    let late = reclaimed.iter().filter(|event| event.0.contains_key("waited_ns"));
    assert_eq!(
        late.map(|event| &*event.0["generation"]).collect::<Vec<_>>(),
        ["1"]
    );
}
