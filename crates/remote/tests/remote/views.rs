//! What the executor has mapped, and what it can get.

use patchpoint::memory::{Reach, SegmentKind, SegmentNeed};

use crate::attack::{BY_FILE, BY_TRACER, ways};
use crate::common::{Handlers, hit, setup};
use crate::there::Watched;

/// A line of a process's maps: its range and its protection.
struct Mapping {
    start: u64,
    end: u64,
    protection: String,
}

fn maps(of: u32) -> Vec<Mapping> {
    let maps = std::fs::read_to_string(format!("/proc/{of}/maps")).unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    maps.lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let protection = words.next().unwrap().to_owned();
            Mapping {
                start: number(start),
                end: number(end),
                protection,
            }
        })
        .collect()
}

#[test]
fn the_executor_has_no_writable_view_of_its_code_at_any_time() {
    let mut setup = setup(Handlers::default(), true);
    let one = setup.objects.put(&[0, 0x17, 111, 1234]);
    let watched = Watched::start(&setup.executor);
    for round in 0..300 {
        setup.engine.patch(78, &hit(0x17, 16 + 8 * (round % 2))).unwrap();
        assert!(setup.get(one).is_ok());
        // New chunks come, which are looked at with the rest.
        if round % 30 == 0 {
            let need = SegmentNeed {
                kind: SegmentKind::Code,
                len: 3 << 20,
                align: 16,
            };
            drop(setup.executor.arena().place(&[need], Reach::Anywhere).unwrap());
            setup.executor.arena().trim();
        }
    }
    let seen = watched.end();
    assert!(seen.is_right() && seen.looks > 10, "{seen}");
}

/// From inside, with the help of the executor's own code.
#[test]
fn the_executor_cannot_get_a_writable_view() {
    let mut setup = setup(Handlers::default(), false);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    let attack = setup.executor.symbol("attack").unwrap().unwrap();
    let id = setup.executor.id().unwrap();
    let get = setup.entry("get").get();
    let maps = maps(id);
    let mapping = maps
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&get))
        .unwrap();
    assert_eq!(mapping.protection, "r-xs");
    let worked = setup
        .thread
        .call(attack, &[mapping.start, mapping.end - mapping.start])
        .unwrap();
    for (bit, way) in ways().enumerate() {
        assert!(worked & (1 << bit) == 0, "{way} worked");
    }
    // These ask for a privilege, which root has; and for a system that lets a child trace.
    eprintln!(
        "descriptors were tried: {}; a tracer was: {}",
        worked & BY_FILE != 0,
        worked & BY_TRACER != 0
    );
    let one = setup.objects.put(&[0, 0x17, 111, 1234]);
    assert_eq!(setup.get(one), Ok(1234));
}

/// No descriptor of the code stays open, in either process.
#[test]
fn no_descriptor_of_the_code_is_left() {
    let setup = setup(Handlers::default(), false);
    for id in [std::process::id(), setup.executor.id().unwrap()] {
        // Other tests of this process have some open for a moment.
        let is_left = (0..1000).all(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            descriptors_of_code(id) > 0
        });
        assert!(!is_left, "of process {id}");
    }
}

/// Who reads data that is not there any more is killed: the executor must not be able to do that to
/// the controller.
#[test]
fn the_executor_cannot_cut_shared_data() {
    let mut setup = setup(Handlers::default(), false);
    let shorten = setup.executor.symbol("shorten").unwrap().unwrap();
    let at = setup.objects.put(&[5]);
    let outcome = setup.thread.call(shorten, &[at]).unwrap();
    assert_ne!(outcome, 1, "it worked");
    eprintln!("it was tried: {}", outcome == 0);
    // SAFETY: shared data, of this test.
    assert_eq!(unsafe { (at as *const u64).read_volatile() }, 5);
}

/// A thread that needs more stack than it has dies there, instead of writing to what is below.
#[test]
fn there_is_nothing_below_a_stack() {
    let setup = setup(Handlers::default(), false);
    let stack = setup.thread.stack();
    let maps = maps(setup.executor.id().unwrap());
    let below = stack.start().get() - 1;
    let guard = maps
        .iter()
        .find(|map| (map.start..map.end).contains(&below))
        .unwrap();
    assert_eq!(guard.protection, "---s");
}

fn descriptors_of_code(id: u32) -> usize {
    let links = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    let targets = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().contains("patchpoint code"))
        .count()
}
