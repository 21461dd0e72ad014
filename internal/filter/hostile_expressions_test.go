package filter

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// TestHostileExpressionsEnd evaluates endless loops and growing texts and expects that each ends soon with an error.
func TestHostileExpressionsEnd(t *testing.T) {
	for _, expression := range []string{
		"for (;;) {} true", "while (true) { try { for (;;) {} } catch (e) {} finally { continue } } true", "do {} while (true); true",
		"(function f() { f() })(); true", "(function f() { [1].map(f) })(); true", "(function f() { try { f() } finally { f() } })(); true",
		"var o = {toString: function(){ return '' + String(o) }}; String(o) == ''",
		"var s = 'a'; for (;;) s += s; true", "var s = 'a'; for (;;) s = s + s; true", "var s = 'ab'; for (;;) s = s.concat(s, s); true",
		"var s = 'ab'; for (;;) s = s.replace(/./g, s); true", "var s = 'ab'; for (;;) s = s.replace('a', '$`$`' + s); true",
		"var s = 'ab'; for (;;) s = [s, s].join(''); true", "var s = 'ab'; for (;;) s = String([s, s]); true",
		"var s = 'ab'; var o = {toString: function(){ return s }}; for (;;) s = s + o; true",
		"var a = [1]; for (;;) a = a.concat(a); true", "var a = [1]; for (;;) a.push(a.slice()); true",
		"new Array(4e9).join('x') == ''", "var a = []; a.length = 4e9; a.sort(); true", "var a = []; a[4e9 - 1] = 1; a.reverse(); true", "var a = new Array(1e9); a.forEach(function(){}); true",
		"Array.prototype.map.call({length: 1e15}, String); true", "Math.max.apply(null, {length: 1e9}) == 1", "Math.max.apply(null, new Array(1e8)) == 1",
		"var a = []; a[0] = a; a.join() == ''", "var a = []; for (var i = 0; i < 1e9; i++) a = [a]; String(a) == ''",
		"var a = []; for (var i = 0; i < 1e4; i++) a = [a]; String(a) == ''", "var a = []; for (;;) a.push({}); true", "var o = {}; for (var i = 0;; i++) o['k' + i] = {}; true",
		"var f = function(){}; for (;;) f = f.bind(null); true", "/(a*)*$/.test(new Array(1e4).join('aaaaaaaaaa'))",
		"new RegExp('(a+)+\\\\1$').test('a'); true",
		// Behind the first match, and in texts beyond ASCII, an engine that backtracks takes over.
		"'baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.replace(/b|(a+)+$/g, 'x') == ''",
		"('\u00e9b' + new Array(50).join('a') + '!').match(/b|(a+)+$/g); true", "('b' + new Array(50).join('a') + '!').split(/b|(a+)+$/); true",
		"var r = /b|(a+)+$/g; r.lastIndex = 1; r.test('b' + new Array(50).join('a') + '!'); true",
		"new Array(4000).join('aaab').match(/(a*)*b|(a*)*c|a/g); var n = 0; for (;;) n++; true",
		"var s = '\u6261', n = '\u6162'; while (s.length < 400000) { s = s.concat(s); n = n.concat(n) } s.indexOf(n) == 1",
		"var s = 'a'; while (s.length < 400000) s = s.concat(s); var a = []; for (var i = 0; i < 10000; i++) a.push(s); a.indexOf(s.concat('b')) == 1",
	} {
		p, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got, err := p.Run(t.Context(), failingEvent(), eventTime())
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%6.1f ms %5d MB  %s: %v", float64(took.Microseconds())/1000, allocated, expression, err)
		if got || err == nil {
			t.Errorf("%s: %t, %v", expression, got, err)
		}
		// Far above what is seen, far below what would hurt: machines of CI are slow.
		if took > 5*time.Second || allocated > 2<<10 {
			t.Errorf("%s took %v and %d MB", expression, took, allocated)
		}
	}
}

// TestContextEndsEvaluation cancels the context of endless expressions and expects the evaluations to stop.
func TestContextEndsEvaluation(t *testing.T) {
	p, err := Compile("for (;;) {} true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, failingEvent(), eventTime()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, failingEvent(), eventTime()); err == nil || !strings.Contains(err.Error(), "stopped") && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := p.Run(t.Context(), failingEvent(), eventTime()); model.ClassOf(err) != model.Limited {
		t.Error(err)
	}
}

// FuzzRun runs random filter expressions, and expects a value or an error from each
func FuzzRun(f *testing.F) {
	for _, s := range []string{"event.check.status == 2", "var a = [1, 2]; a.join('') + 'x' == '12x'", "/a+/g.test(event.check.output)", "(function f(n) { return n ? f(n - 1) : true })(9)", "'a'.replace(/a/, '$&$&') == 'aa'", "({a: 1})['a'] === 1 ? true : !1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		p, err := Compile(expression)
		if err != nil {
			return
		}
		began := time.Now()
		_, err = p.Run(t.Context(), failingEvent(), eventTime())
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q took %v", expression, took)
		}
		if model.ClassOf(err) == model.Internal && err != nil {
			t.Errorf("%q: %v", expression, err)
		}
	})
}

// TestLongChainsCompileQuickly compiles long chains of && and ||, and expects no error. The interpreter's own compiler
// takes exponential time for such chains.
func TestLongChainsCompileQuickly(t *testing.T) {
	for _, link := range []string{"true && ", "false || ", "!(true && true) || ", "1 < 2 && ", "event.a && "} {
		if _, err := Compile(strings.Repeat(link, 200) + "true"); err != nil {
			t.Errorf("%s: %v", link, err)
		}
	}
}
