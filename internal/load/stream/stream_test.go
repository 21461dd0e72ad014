package stream

import (
	"archive/zip"
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// written returns a file with these signals.
func written(t testing.TB, h *Head, list []Signal) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out)
	testenv.NoError(t, err)
	for i := range list {
		testenv.NoError(t, w.Add(&list[i]))
	}
	testenv.NoError(t, w.Close(h))
	return out.Bytes()
}

// readAll reads head and signals of a file.
func readAll(data []byte) (h Head, list []Signal, err error) {
	r, err := NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return h, nil, err
	}
	err = r.Each(func(some []Signal) error { list = append(list, some...); return nil })
	return r.Head, list, err
}

// headOf returns the head that a recorder would write for these signals.
func headOf(list []Signal) *Head {
	h := &Head{Began: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), Length: time.Millisecond}
	states, most := map[[2]uint32]bool{}, map[uint32]int{}
	for i := range list {
		s := &list[i]
		h.Length = max(h.Length, time.Duration(s.At+1)*time.Millisecond)
		h.Nodes, h.Longest = max(h.Nodes, int(s.Node)+1), max(h.Longest, int(s.Output))
		h.Checks = append(h.Checks, make([]Check, max(0, int(s.Check)+1-len(h.Checks)))...)
		h.Bytes += uint64(s.Output)
		c := &h.Checks[s.Check]
		if h.Signals++; s.Late {
			h.Late++
		}
		c.Signals++
		c.Interval = 10 * time.Second
		if at := [2]uint32{s.Node, s.Check}; !states[at] {
			states[at] = true
			c.Nodes++
			most[s.Node]++
			h.Most = max(h.Most, most[s.Node])
		}
	}
	h.States = max(len(states), h.Nodes, len(h.Checks))
	return h
}

// example returns a head and signals that fit it.
func example() (*Head, []Signal) {
	list := []Signal{
		{At: 0, Node: 0, Check: 0, Output: 42},
		{At: 1500, Node: 1, Check: 0, Output: 100, Status: model.Critical},
		{At: 1500, Node: 1, Check: 1, Output: 1 << 20, Status: model.Unknown, Late: true},
		{At: 70_000, Node: 0, Check: 0, Status: model.Warning},
	}
	return headOf(list), list
}

// TestSameAgain writes and reads signals over many blocks, and expects the same.
func TestSameAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var list []Signal
		for range rapid.SampledFrom([]int{1, 7, atOnce, atOnce + 1, 3*atOnce - 1}).Draw(rt, "signals") {
			list = append(list, Signal{Node: rapid.Uint32Range(0, 50).Draw(rt, "node"), Check: rapid.Uint32Range(0, 9).Draw(rt, "check")})
		}
		at := uint32(0)
		for i := range list {
			at += uint32(i*7919) % 300
			list[i].At, list[i].Output, list[i].Status, list[i].Late = at, uint32(i*i)%5000, model.Status(i%4), i%17 == 0
		}
		h := headOf(list)
		got, signals, err := readAll(written(t, h, list))
		if err != nil || !reflect.DeepEqual(&got, h) || !slices.Equal(signals, list) {
			rt.Fatalf("%v: %d of %d signals, head %+v, want %+v", err, len(signals), len(list), got, h)
		}
	})
}

// TestDamageIsFound changes and cuts a file, and expects an error with the reason.
func TestDamageIsFound(t *testing.T) {
	h, list := example()
	data := written(t, h, list)
	at := bytes.Index(data, []byte(signalsName)) + len(signalsName)
	for i := at; i < at+8; i++ { // the compressed signals
		bad := slices.Clone(data)
		bad[i] ^= 0x20
		if _, _, err := readAll(bad); model.ClassOf(err) != model.Invalid {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for i := range data {
		if _, _, err := readAll(data[:i]); model.ClassOf(err) != model.Invalid {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	changed := func(change func(h *Head, list []Signal)) []byte {
		h, list := example()
		change(h, list)
		return written(t, h, list)
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"another file":    {[]byte("a sheet of paper, and nothing on it that anybody could play"), "no recorded stream"},
		"more signals":    {changed(func(h *Head, _ []Signal) { h.Signals++ }), "does not fit"},
		"another node":    {changed(func(_ *Head, l []Signal) { l[0].Node = 7 }), "does not fit"},
		"another check":   {changed(func(_ *Head, l []Signal) { l[0].Check = 7 }), "does not fit"},
		"after its end":   {changed(func(h *Head, _ []Signal) { h.Length = time.Second }), "does not fit"},
		"longer than all": {changed(func(h *Head, _ []Signal) { h.Longest = 100 }), "does not fit"},
		"head of none":    {changed(func(h *Head, _ []Signal) { h.Nodes = 0 }), "does not fit"},
		"of the future":   {future(t), `written as "muster.stream/2"`},
	} {
		if _, _, err := readAll(c.data); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "none")); model.ClassOf(err) != model.NotFound {
		t.Error(err)
	}
}

// future returns a file of a later version.
func future(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	head, err := archive.Create(headName)
	if err == nil {
		_, err = head.Write([]byte(`{"version":"muster.stream/2"}`))
	}
	if err == nil {
		err = archive.Close()
	}
	testenv.NoError(t, err)
	return out.Bytes()
}

// FuzzReader reads random bytes as a file and as its signals, and expects an error, or as many signals as the head has.
func FuzzReader(f *testing.F) {
	h, list := example()
	f.Add(written(f, h, list))
	f.Add([]byte{0, 0, 0, 9, 1, 1, 0, 12})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = readAll(data)
		var out bytes.Buffer
		w, err := NewWriter(&out)
		testenv.NoError(t, err)
		_, _ = w.out.Write(data)
		whole := &Head{Length: MaxLength, Nodes: 5, States: 9, Most: 1, Longest: 1 << 20, Signals: max(1, uint64(len(data)/4)), Checks: make([]Check, 9)}
		testenv.NoError(t, w.Close(whole))
		if _, list, err := readAll(out.Bytes()); err == nil && uint64(len(list)) != whole.Signals {
			t.Errorf("%d signals of %d", len(list), whole.Signals)
		}
	})
}
