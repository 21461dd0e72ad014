package metric

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/textlog"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// textDefinition returns a compiled Template with a log item and two other items. They are an item without history and
// a dependent item.
func textDefinition(id model.DefinitionID) *model.Definition {
	return (&model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items: []model.Item{
			{Key: "log", Type: "log"}, {Key: "quiet", Type: "text", NoHistory: true},
			{Key: "word", Type: "text", From: "quiet", Steps: []model.Step{{Name: "regex", Parameters: []string{"(a\\w+)", "\\1"}}}},
		},
	}).ToDefinition()
}

// newTextView returns an empty metric view for tests, with a store of text values.
func newTextView(t *testing.T, path string) (*testView, *textlog.Store) {
	t.Helper()
	s, err := textlog.Open(t.Context(), path, textlog.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	testenv.NoError(t, err)
	of := shard.New(shard.Options{Workers: 1, Definitions: textDefinition})
	return &testView{View: New(of, Options{Definitions: textDefinition, Texts: s}), shard: of}, s
}

// TestTextsAreStoredOnce applies log lines and restarts from old snapshots, and expects each line once. The snapshots
// are older than the text store. Each line is there once, in the order of their times; values of an item without
// history are not, but those that are made of them are.
func TestTextsAreStoredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.db")
	v, s := newTextView(t, path)
	lines := func(times []int64, texts ...string) []byte {
		list := make([]wire.BlockValue, len(texts))
		for i, text := range texts {
			list[i] = wire.BlockValue{Row: uint32(i), Value: item.FromText(text)}
		}
		return v.block(5, times, list)
	}
	quiet := func(text string) []byte {
		return v.block(5, []int64{0}, []wire.BlockValue{{Position: 1, Value: item.FromText(text)}})
	}
	commits := []*testCommit{
		{1, [][]byte{lines([]int64{0, 1}, "one", "two")}},
		{2, [][]byte{quiet("some apple"), lines([]int64{-5e9}, "late")}},
		{3, nil},
		{4, [][]byte{lines([]int64{0}, "four")}},
	}
	var bodies [model.Partitions][]byte
	var at [model.Partitions]journal.Position
	for i, c := range commits {
		testenv.NoError(t, v.shard.Apply(c))
		for p := range model.Partitions {
			if i == 0 {
				bodies[p], at[p] = v.shard.Snapshot(model.Partition(p), nil)
			}
			if i == 1 {
				testenv.NoError(t, s.Flush(t.Context(), model.Partition(p)))
			}
		}
	}
	want := []string{"late", "one", "two", "apple", "four"}
	compare := func() {
		t.Helper()
		rows, _, err := s.Find(t.Context(), &textlog.Query{Limit: 10})
		testenv.NoError(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, row.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("stored %q, want %q", got, want)
		}
	}
	compare()
	testenv.NoError(t, s.Close())
	v, s = newTextView(t, path)
	for p := range model.Partitions {
		testenv.NoError(t, v.shard.Restore(model.Partition(p), at[p], bodies[p]))
	}
	for _, c := range commits {
		testenv.NoError(t, v.shard.Apply(c))
	}
	compare()
	testenv.NoError(t, s.Close())
}
