package stream

import (
	"bytes"
	"encoding/hex"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := w.Add(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(h); err != nil {
		t.Fatal(err)
	}
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

// TestGolden compares the bytes of a file with those of version 1, which all versions must read.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "v1.hex")
	h, list := example()
	text := hex.Dump(written(t, h, list))
	testenv.Golden(t, path, text, "a new version of the format")
	var data []byte
	for line := range strings.Lines(text) {
		if digits, _, ok := strings.Cut(line[min(len(line), 10):], "|"); ok {
			some, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, some...)
		}
	}
	gotHead, got, err := readAll(data)
	if err != nil || !reflect.DeepEqual(&gotHead, h) || !slices.Equal(got, list) {
		t.Errorf("%v\n%+v\n%+v", err, gotHead, got)
	}
	page, err := os.ReadFile("../../../docs/stream-format.md")
	if err != nil || !strings.Contains(string(page), string(text)) {
		t.Errorf("docs/stream-format.md does not show %s (%v)", path, err)
	}
}

// TestSameAgain writes and reads signals over many blocks, and expects the same.
func TestSameAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var list []Signal
		for range rapid.SampledFrom([]int{1, 7, blockSignals, blockSignals + 1, 3*blockSignals - 1}).Draw(rt, "signals") {
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

// TestDamageIsFound changes each byte of a file, and expects an error with its place.
func TestDamageIsFound(t *testing.T) {
	h, list := example()
	data := written(t, h, list)
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 0x20
		if _, _, err := readAll(bad); model.ClassOf(err) != model.Invalid {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, _, err := readAll(data[:i]); model.ClassOf(err) != model.Invalid {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	changed := func(change func(h *Head, list []Signal)) []byte {
		h, list := example()
		change(h, list)
		return written(t, h, list)
	}
	block := func() []byte {
		bad := slices.Clone(data)
		bad[len(magic)+blockHeaderSize+3] ^= 1
		return bad
	}()
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"another file":    {[]byte("a sheet of paper, and nothing on it that anybody could play"), "does not begin with muster.stream/1"},
		"nothing":         {nil, "does not begin with"},
		"of the future":   {append([]byte("muster.stream/2\n"), data[16:]...), "written as muster.stream/2"},
		"a bit":           {block, "damaged at offset 16: its checksum"},
		"cut":             {data[:len(data)-1], "cut short, or is still being written"},
		"more signals":    {changed(func(h *Head, _ []Signal) { h.Signals++ }), "not those that its head counts"},
		"another node":    {changed(func(_ *Head, l []Signal) { l[0].Node = 7 }), "damaged at offset 16: the signals"},
		"another check":   {changed(func(_ *Head, l []Signal) { l[0].Check = 7 }), "damaged at offset 16: the signals"},
		"after its end":   {changed(func(h *Head, _ []Signal) { h.Length = time.Second }), "damaged at offset 16: the signals"},
		"longer than all": {changed(func(h *Head, _ []Signal) { h.Longest = 100 }), "damaged at offset 16: the signals"},
		"head of none":    {changed(func(h *Head, _ []Signal) { h.Nodes = 0 }), "its content is not"},
	} {
		if _, _, err := readAll(c.data); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "none")); model.ClassOf(err) != model.NotFound {
		t.Error(err)
	}
}

// FuzzReader reads random bytes, and expects an error, or signals that are the same after writing and reading.
func FuzzReader(f *testing.F) {
	h, list := example()
	f.Add(written(f, h, list))
	f.Add(appendHead(nil, h))
	f.Add(appendSignal(nil, 0, &list[1]))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = readAll(data)
		if h, err := decodeHead(data); err == nil {
			if again, err := decodeHead(appendHead(nil, h)); err != nil || !reflect.DeepEqual(again, h) {
				t.Errorf("%v\n%+v\n%+v", err, again, h)
			}
		}
		// As a block, whose checksum nobody guesses.
		var out bytes.Buffer
		w, err := NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w.block, w.count = data, uint32(max(1, len(data)/4))
		whole := &Head{Length: MaxLength, Nodes: 5, States: 9, Most: 1, Longest: 1 << 20, Signals: uint64(w.count), Checks: make([]Check, 9)}
		if err := w.Close(whole); err != nil {
			t.Fatal(err)
		}
		if _, list, err := readAll(out.Bytes()); err == nil && len(list) != int(whole.Signals) {
			t.Errorf("%d signals of %d", len(list), whole.Signals)
		}
	})
}
