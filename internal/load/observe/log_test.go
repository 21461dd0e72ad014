package observe

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestLog writes and reads a log, also one cut within a line, and expects the same lines.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := NewLog(path, nil)
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file before the first line")
	}
	want := []Line{{At: 7, Heap: 4}, {At: 8, Mark: "x"}, {State: &State{Counts: [][]float64{{1}}, Sums: [][]float64{{2}}, Problems: map[Trigger]Problems{{3, 4}: {Opened: 1}}}}, {Runs: &Runs{Directives: map[string]int{"a": 2}}},
		{Kept: &Kept{Ledger: &Ledger{Member: 2, Signals: 9, Taken: 8, States: Entries{{Results: 1}}}}}}
	for _, line := range want {
		l.Append(line)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Read(bytes.NewReader(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Read(bytes.NewReader(text[:len(text)-5])); err != nil || len(got) != 4 {
		t.Errorf("cut short: %+v, %v", got, err)
	}
	if _, err := Read(bytes.NewReader([]byte("{}\nnonsense"))); err == nil {
		t.Error("nonsense is read")
	}
}

// TestLogReportsItsFirstError appends lines to a log in an absent folder, and expects one report and the error of Close.
func TestLogReportsItsFirstError(t *testing.T) {
	reports := 0
	l := NewLog(filepath.Join(t.TempDir(), "absent", "log"), func(error) { reports++ })
	l.Append(Line{Heap: 1})
	l.Append(Line{Heap: 2})
	if err := l.Close(); err == nil || reports != 1 {
		t.Errorf("%d reports, %v", reports, err)
	}
}

// FuzzRead reads random logs, writes what it read, and expects to read the same again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"at":1,"mark":"x"}` + "\n" + `{"heap":1}`))
	f.Add([]byte("{"))
	f.Add([]byte(`{"checked":{"version":1,"report":{}}}{"loader":2,"kept":{"set":{"checks":[{"id":1}]}}}{"loader":2,"kept":{"ledger":{"set":0,"states":"AAAAAQAAAAIAAAADAAAABAAFAAY="}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Read(bytes.NewReader(data))
		if err == nil && len(list) > len(data)/2 {
			t.Errorf("%d lines of %d bytes", len(list), len(data))
		}
		if at := (Trigger{}); at.UnmarshalText(data) == nil {
			if _, err := at.MarshalText(); err != nil {
				t.Error(err)
			}
		}
		if c, err := ReadChecks(list); err == nil && c.Start == nil {
			t.Error("a run without a start")
		}
	})
}
