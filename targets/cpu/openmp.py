"""A parallel loop for compiled code, on the OpenMP threads that eager uses.

torch's own libgomp is called, so there is one thread pool, no oversubscription, and `torch.set_num_threads` is honoured
(it is read at run time). Where torch has none (macOS), the loop is serial.

A region always has all threads, and those without a part do nothing: libgomp ends the threads that a smaller team has
no use for, and starts them again for the next larger one (on two cores, teams of 4 and 2 in turns take 20 times as
long as teams of 4 in the mean, and 1.4 times in the median).
"""

from __future__ import annotations

from cuesta.targets.cpu import libraries

PARALLEL_FOR = "cuesta.parallel_for"

_RUN_DIRECTLY = """\
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %done
run:
  call void %fn(ptr %args, i64 0, i64 %n)
  br label %done
done:
  ret void
}
"""

_PARALLEL_FOR_TEXT = f"""\
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num() nounwind
declare i32 @omp_get_num_threads() nounwind
declare i32 @omp_get_max_threads() nounwind
declare i32 @omp_in_parallel() nounwind

; What one thread does: its contiguous share of [0, n), if it is of the first `used`. OpenMP may start fewer threads.
define internal void @cuesta.parallel_for.thread(ptr %region) {{
  %fn = load ptr, ptr %region
  %args.place = getelementptr inbounds i8, ptr %region, i64 8
  %args = load ptr, ptr %args.place
  %n.place = getelementptr inbounds i8, ptr %region, i64 16
  %n = load i64, ptr %n.place
  %used.place = getelementptr inbounds i8, ptr %region, i64 24
  %used = load i64, ptr %used.place
  %thread = call i32 @omp_get_thread_num()
  %threads = call i32 @omp_get_num_threads()
  %t = zext nneg i32 %thread to i64
  %started = zext nneg i32 %threads to i64
  %count = call i64 @llvm.umin.i64(i64 %started, i64 %used)
  %idle = icmp uge i64 %t, %count
  br i1 %idle, label %done, label %share
share:
  %quotient = udiv i64 %n, %count
  %remainder = urem i64 %n, %count
  %extra = call i64 @llvm.umin.i64(i64 %t, i64 %remainder)
  %whole = mul i64 %t, %quotient
  %begin = add i64 %whole, %extra
  %longer = icmp ult i64 %t, %remainder
  %one = zext i1 %longer to i64
  %length = add i64 %quotient, %one
  %end = add i64 %begin, %length
  %empty = icmp eq i64 %length, 0
  br i1 %empty, label %done, label %run
run:
  call void %fn(ptr %args, i64 %begin, i64 %end)
  br label %done
done:
  ret void
}}

define internal void @cuesta.parallel_for(ptr %fn, ptr %args, i64 %n, i64 %grain) noinline {{
  %small = icmp sle i64 %n, %grain
  br i1 %small, label %serial, label %ask
ask:
  %max = call i32 @omp_get_max_threads()
  %nested = call i32 @omp_in_parallel()
  %one = icmp sle i32 %max, 1
  %inside = icmp ne i32 %nested, 0
  %alone = or i1 %one, %inside
  br i1 %alone, label %serial, label %parallel
parallel:
  %n1 = sub i64 %n, 1
  %full = sdiv i64 %n1, %grain
  %chunks = add i64 %full, 1
  %limit = zext nneg i32 %max to i64
  %used = call i64 @llvm.umin.i64(i64 %chunks, i64 %limit)
  %region = alloca {{ ptr, ptr, i64, i64 }}
  store ptr %fn, ptr %region
  %args.place = getelementptr inbounds i8, ptr %region, i64 8
  store ptr %args, ptr %args.place
  %n.place = getelementptr inbounds i8, ptr %region, i64 16
  store i64 %n, ptr %n.place
  %used.place = getelementptr inbounds i8, ptr %region, i64 24
  store i64 %used, ptr %used.place
  call void @GOMP_parallel(ptr @cuesta.parallel_for.thread, ptr %region, i32 0, i32 0)
  ret void
serial:
{_RUN_DIRECTLY}"""

_SERIAL_FOR_TEXT = f"""\
define internal void @cuesta.parallel_for(ptr %fn, ptr %args, i64 %n, i64 %grain) noinline {{
{_RUN_DIRECTLY}"""


def has_threads() -> bool:
    """True when torch brought an OpenMP runtime that compiled code can use."""
    return libraries.openmp_library() is not None


def parallel_for_text(threads: bool | None = None) -> str:
    """LLVM IR for `void @cuesta.parallel_for(ptr fn, ptr args, i64 n, i64 grain)`, once per module.

    `fn` is `void (ptr args, i64 begin, i64 end)` and is called on contiguous, near-equal parts of [0, n): one part per
    thread, at most ceil(n / grain) parts. With one part, one thread or inside a parallel region it is called
    directly. Nothing is called when n is 0.
    Requires: grain ≥ 1.
    """
    return _PARALLEL_FOR_TEXT if (has_threads() if threads is None else threads) else _SERIAL_FOR_TEXT
