//! The reader, on texts; that records are matched is tested on objects, in `tests/tool/ir.rs`.

use patchpoint::CallShape;

use super::*;

fn calls(text: &str) -> Vec<(String, u64, Meaning)> {
    let mut program = Program::default();
    program.add(text).unwrap();
    let functions = program.functions.into_iter();
    functions
        .flat_map(|function| {
            let name = function.name;
            function
                .calls
                .into_iter()
                .map(move |call| (name.clone(), call.id, call.meaning))
        })
        .collect()
}

fn one(call: &str) -> Call {
    let mut program = Program::default();
    program
        .add(&format!("define void @f(ptr %x) {{\n {call}\n ret void }}"))
        .unwrap();
    let mut calls = program.functions.remove(0).calls;
    assert_eq!(calls.len(), 1, "{call}");
    calls.remove(0)
}

#[test]
fn calls_are_read_however_they_are_written() {
    let text = "
        declare void @llvm.experimental.stackmap(i64, i32, ...)
        ; call void @llvm.experimental.stackmap(i64 1, i32 8)
@s = constant [2 x i8] c\"}\\22\", align 1
define <2 x i64> @first(i64 %a) prefix { i32, i32 } { i32 1, i32 2 } personality ptr @p {
        call void (i64, i32, ...) @llvm.experimental.stackmap(i64  2,\ti32 16, i64 %\"x)\")
        %r = tail call anyregcc noundef i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 -3, i32 24, ptr inttoptr (i64 5 to ptr), i32 2, i64 %a, i64 %b) #1
  ret <2 x i64> zeroinitializer }define internal\nvoid @\"se\\20cond\"\r\n() { call
   void (i64, i32, i8*, i32, ...)* @\"llvm.experimental.patchpoint.void\" ; (
     ( i64 4, ; i64 9
       i32 32, i8* null, i32 0)
        %t = invoke token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 5, i32 6, ptr elementtype(void ()) @g, i32 0, i32 0, i32 0, i32 0) [ \"deopt\"(i32 1) ] to label %n unwind label %u
   n: ret void }";
    let site = |function: &str, id: i64, shape| (function.to_owned(), id as u64, Meaning::Shape(shape));
    let expected = [
        site("first", 2, CallShape::shadow(16)),
        site("first", -3, CallShape::any_reg(24).result().args(2)),
        site("se cond", 4, CallShape::c(32)),
        ("se cond".to_owned(), 5, Meaning::Statepoint),
    ];
    assert_eq!(calls(text), expected);
}

#[test]
fn conventions_are_told_apart() {
    let meaning = |head: &str| {
        let types = "(i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64";
        one(&format!("call {head} {types}(i64 1, i32 8, ptr null, i32 0)")).meaning
    };
    let any = Meaning::Shape(CallShape::any_reg(8).result());
    let c = Meaning::Shape(CallShape::c(8).result());
    let other = |name: &str| Meaning::Convention(name.to_owned());
    for (head, expected) in [
        ("anyregcc i64", any.clone()),
        ("cc 13 i64", any.clone()),
        ("cc  13 zeroext i64", any),
        ("i64", c.clone()),
        ("ccc i64", c.clone()),
        ("cc 0 noundef range(i64 0, 5) i64", c),
        ("preserve_mostcc i64", other("preserve_mostcc")),
        ("cc 10 i64", other("cc 10")),
        ("win64cc { i64, ptr }", other("win64cc")),
        ("some_later_cc i64", other("some_later_cc")),
    ] {
        assert_eq!(meaning(head), expected, "{head}");
    }
}

#[test]
fn operands_tell_what_their_locations_are() {
    let call = one(
        "call void (i64, i32, ...) @llvm.experimental.stackmap(i64 1, i32 0, i32 -1, i1 true, ptr null, i8* null, i8 addrspace(1)* null, \
         ptr %x, i64 undef, i64 ptrtoint (ptr @f to i64), double 1.0, <2 x i64> zeroinitializer, i128 1, { i64, ptr } %y)",
    );
    use Operand::{Constant, Null, One, Wide};
    let expected = [
        Constant {
            bits: 32,
            value: 0xffff_ffff,
        },
        Constant { bits: 1, value: 1 },
        Null,
        Null,
        One,
        One,
        One,
        One,
        One,
        Wide,
        Wide,
        Wide,
    ];
    assert_eq!(call.live, expected);
}

#[test]
fn what_is_no_ir_is_refused_with_its_line() {
    let refused = |text: &str| {
        let malformed = Program::default().add(text).unwrap_err();
        (malformed.line, malformed.why)
    };
    let stackmap = "call void @llvm.experimental.stackmap";
    for (text, line, why) in [
        ("\n@\"x", 2, "no end"),
        ("define void @f() {\n ret void", 1, "not closed"),
        ("define", 1, "no name"),
        ("define void @f()", 1, "no body"),
        (
            &format!("define void @f() {{\n {stackmap}(i64 %x, i32 0) }}"),
            2,
            "no i64 for its ID",
        ),
        (
            &format!("define void @f() {{\n {stackmap}(i64 1, i32 -1) }}"),
            2,
            "negative",
        ),
        (
            "define void @f() {\n call void @llvm.experimental.patchpoint.void(i64 1, i32 8, ptr null, i32 9, i64 1) }",
            2,
            "fewer than 9",
        ),
    ] {
        let (at, said) = refused(text);
        assert!(at == line && said.contains(why), "{text}: {at} {said}");
    }
}

#[test]
fn a_function_is_inlined_where_it_may_be() {
    let mut program = Program::default();
    let text = "
@table = constant ptr @taken
define void @home() { call void @direct() ret void }
define void @direct() { call void @far() ret void }
define void @far() { call void @llvm.experimental.stackmap(i64 1, i32 0) call void @kept() ret void }
define void @kept() #0 { call void @llvm.experimental.stackmap(i64 1, i32 8) ret void }
define void @unknown(ptr %f) { call void %f() ret void }
define void @taken() { call void @llvm.experimental.stackmap(i64 1, i32 16) ret void }
attributes #0 = { noinline nounwind }";
    program.add(text).unwrap();
    let into = |name: &str| {
        let inlined = program.inlined_into(program.names[name][0]);
        let mut names: Vec<_> = inlined
            .iter()
            .map(|number| program.functions[*number].name.as_str())
            .collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(into("home"), "far home");
    assert_eq!(into("kept"), "kept");
    assert_eq!(into("unknown"), "taken unknown");
}
