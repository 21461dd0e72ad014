package follow

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/testenv"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

// sampleResult returns a check result with every field set, for tests of the JSON line.
func sampleResult(t testing.TB) *streamedResult {
	w := testenv.Value(newNameCache(&testDirectory{}, "default", nil))(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC).UnixNano()
	return &streamedResult{
		at: journal.Position{Log: 0xabc, Number: 17}, index: 4, received: at, executed: at - 1e9, node: w.nodeText(12), ranBy: w.nodeText(20), check: w.checkText(firstTestDefinition),
		status: model.Critical, output: []byte("disk \"97%\" full\t\x01\xff"), duration: 1250, key: wire.StreamKey{Stream: 9, Lane: wire.Backlog}, number: 321,
		extra:    wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "/", Value: 97.5, Tags: map[string]string{"b": "2", "a": "1"}, At: time.Unix(0, at)}, {Name: "n", Value: 3}}}),
		isNewest: true, verdict: event.ResultState{Failing: true, Occurrences: 3, Watermark: 3, Changed: at - 60e9, Problem: "abcdefgh23456789", Acked: true},
	}
}

// goldenLine is the line of sampleResult. Other programs parse it: fields may be added, never changed.
const goldenLine = `{"version":1,"kind":"result","id":"0000000000000abc-17-4","namespace":"default","node":"n12","labels":{"os":"linux"},"check":"c0",` +
	`"status":"CRITICAL","severity":"high","output":"disk \"97%\" full\t\u0001�","executed":"2026-03-01T11:59:59.25Z","received":"2026-03-01T12:00:00.25Z",` +
	`"duration":1.25,"stream":"0000000000000009","number":321,"late":true,"ranBy":"other/n20",` +
	`"values":[{"name":"/","tags":{"a":"1","b":"2"},"value":97.5,"at":"2026-03-01T12:00:00.25Z"},{"name":"n","value":3}],` +
	`"event":{"state":"failing","occurrences":3,"watermark":3,"since":"2026-03-01T11:59:00.25Z","problem":"abcdefgh23456789","acknowledged":true}}` + "\n"

// TestLineHasTheGoldenBytes compares the JSON line of a check result with a stored example, byte by byte.
func TestLineHasTheGoldenBytes(t *testing.T) {
	text := appendLine(nil, sampleResult(t))
	if string(text) != goldenLine {
		t.Errorf("wrote\n%swant\n%s", text, goldenLine)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	var line Line
	testenv.NoError(t, in.Decode(&line))
	again, err := json.Marshal(&line)
	if err != nil || string(again)+"\n" != goldenLine {
		t.Errorf("decoding into Line and encoding again gives\n%s, %v", again, err)
	}
	short := sampleResult(t)
	short.duration, short.number, short.key, short.ranBy, short.extra, short.isNewest = 0, 0, wire.StreamKey{}, nil, nil, false
	if err := json.Unmarshal(appendLine(nil, short), &Line{}); err != nil {
		t.Error(err)
	}
}

// FuzzAppendText compares appendText with encoding/json on random bytes.
func FuzzAppendText(f *testing.F) {
	for _, text := range []string{"", "plain", "\"\\\x00\x1f\x7f", "é漢\U0001F600", "\xff\xc3", "\xe2\x80\xa8<&>"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var back string
		written := appendText(nil, text)
		if err := json.Unmarshal(written, &back); err != nil {
			t.Fatalf("%q became %s: %v", text, written, err)
		}
		if utf8.Valid(text) && back != string(text) || !utf8.Valid(text) && back != string(bytes.Join(replaceInvalidUTF8(text), nil)) {
			t.Fatalf("%q became %s, which is %q", text, written, back)
		}
		if string(appendText(nil, string(text))) != string(written) {
			t.Fatalf("%q as a text differs", text)
		}
	})
}

// replaceInvalidUTF8 replaces each invalid byte of a text by U+FFFD, to compute the expected output of
// appendText.
func replaceInvalidUTF8(text []byte) (parts [][]byte) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		parts = append(parts, []byte(string(r)))
		text = text[size:]
	}
	return parts
}

// BenchmarkLine measures formatting one result as a JSON line.
func BenchmarkLine(b *testing.B) {
	r := sampleResult(b)
	r.extra, r.output = nil, []byte("DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968")
	r.ranBy, r.key.Lane = nil, 0
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = appendLine(buf[:0], r)
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkRead measures reading results from the journal and formatting their lines. The lines of 100 connections are
// not written.
func BenchmarkRead(b *testing.B) {
	r := newTestServer(b)
	r.appendResults(500, 8, 5)
	f, err := newFollower(&Options{Journal: r.log, View: r.view, Directory: r.directory, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, handlerName("lake"),
		&model.HandlerSpec{Stream: &model.Stream{Address: "127.0.0.1:1", Connections: 100}}, journal.Position{}, State{})
	testenv.NoError(b, err)
	lines := 0
	f.reader.handleResult = func(r *streamedResult) {
		f.pool.addLine(f.pool.connOf(r.nodeID, r.check.id), r)
		lines++
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		testenv.NoError(b, f.readCommits(b.Context(), journal.Position{}, r.log.Head(), func(journal.Commit) error { f.pool.dropLines(); return nil }))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lines), "ns/line")
	b.ReportMetric(float64(lines)/float64(b.N), "lines/op")
}

var goldenCursors = []cursor{
	{"default", "lake", "lake.example.org:9000", journal.Position{Log: 7, Number: 1234567}, 0},
	{"ops", "copy", "[::1]:9", journal.Position{Log: 1 << 63, Number: 1}, 99},
}

// goldenCursorBytes is the encoding of goldenCursors. It never changes: newer releases read the files of older ones.
const goldenCursorBytes = "4d5553544355525301000000ae397b90" +
	"0764656661756c74046c616b65156c616b652e6578616d706c652e6f72673a39303030" + "0700000000000000" + "87d6120000000000" + "0000000000000000" +
	"036f707304636f7079075b3a3a315d3a39" + "0000000000000080" + "0100000000000000" + "6300000000000000"

// TestCursorFileHasTheGoldenBytes compares the encoded file of saved journal positions with a stored example,
// byte by byte. Another version of the file must give an error.
func TestCursorFileHasTheGoldenBytes(t *testing.T) {
	data := appendCursors(nil, goldenCursors)
	if got := hex.EncodeToString(data); got != goldenCursorBytes {
		t.Errorf("wrote\n%s\nwant\n%s", got, goldenCursorBytes)
	}
	if list, err := parseCursors(data); err != nil || !reflect.DeepEqual(list, goldenCursors) {
		t.Errorf("read back %+v, %v", list, err)
	}
	data[8] = 2
	if _, err := parseCursors(data); err == nil || errors.Is(err, errDamagedCursors) {
		t.Errorf("of another version: %v", err)
	}
}

// TestSavedCursorsAreLoaded saves the journal positions of handlers, and expects equal positions when loaded. A
// missing file means no positions.
func TestSavedCursorsAreLoaded(t *testing.T) {
	fs := memfs.New()
	if list, err := loadCursors(fs, "d"); err != nil || list != nil {
		t.Fatalf("of no file: %v, %v", list, err)
	}
	testenv.NoError(t, fs.MkdirAll("d"))
	for n := range 3 {
		testenv.NoError(t, saveCursors(fs, "d", goldenCursors[:n]))
		if list, err := loadCursors(fs, "d"); err != nil || len(list) != n {
			t.Fatalf("%d saved, read %v, %v", n, list, err)
		}
	}
}

// FuzzParseCursors parses random bytes as the file of journal positions, and expects an error or equal
// re-encoded bytes.
func FuzzParseCursors(f *testing.F) {
	f.Add(appendCursors(nil, goldenCursors))
	f.Add([]byte(cursorMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseCursors(data)
		if err != nil {
			return
		}
		if again, err := parseCursors(appendCursors(nil, list)); err != nil || !reflect.DeepEqual(again, list) {
			t.Fatalf("%+v became %+v, %v", list, again, err)
		}
	})
}
