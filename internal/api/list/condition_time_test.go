package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/where"
)

// slowRow is a row whose condition takes time to evaluate.
type slowRow struct {
	Name string
	took time.Duration
}

// MarshalJSON takes the time of the row.
func (r slowRow) MarshalJSON() ([]byte, error) {
	_ = pause.For(context.Background(), r.took)
	return json.Marshal(map[string]string{"name": r.Name})
}

// TestConditionsHaveATimeLimit evaluates conditions over lists without pages and with pages. It expects an error after the time
// limit of the first, and short pages of the second.
func TestConditionsHaveATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := view.New(view.Stores{}, view.Live{})
		rows := func(took time.Duration) (list []slowRow) {
			for i := range 20_000 {
				list = append(list, slowRow{fmt.Sprint("web", i), took})
			}
			return list
		}
		in := Where{`row.name.endsWith("7")`}
		if matching, err := FilterRows(t.Context(), v, in, rows(100*time.Microsecond)); err != nil || len(matching) != 2000 {
			t.Errorf("%d rows, %v", len(matching), err)
		}
		began := time.Now()
		_, err := FilterRows(t.Context(), v, in, rows(time.Millisecond))
		if model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "did not end within 10s") || time.Since(began) > maxConditionTime+time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := FilterRows(ended, v, in, rows(0)); !errors.Is(err, context.Canceled) {
			t.Errorf("after the client left: %v", err)
		}
		filter, err := NewRowFilter(t.Context(), v, in)
		if err != nil {
			t.Fatal(err)
		}
		all, began := rows(100*time.Millisecond), time.Now()
		page, next, err := ReadPage(v, PagedRows[slowRow]{Limit: 100, Filter: filter,
			Read: func(behind Cursor, size int) ([]slowRow, error) {
				return all[behind.Number : int(behind.Number)+size], nil
			},
			Cursor: func(r *slowRow) Cursor { return Cursor{Number: 1} },
		}, func(r *slowRow) (model.NodeID, slowRow) { return 0, *r })
		if err != nil || next == "" || len(page) > 1 || time.Since(began) > 2*SearchTimeLimit {
			t.Errorf("a page of %d rows after %s, next %q, %v", len(page), time.Since(began), next, err)
		}
	})
}

// TestConditionOfOneRowEnds evaluates a condition that takes hours for one row, and expects its end with the context.
func TestConditionOfOneRowEnds(t *testing.T) {
	numbers := make([]int, 30_000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	v := view.New(view.Stores{}, view.Live{})
	_, err := FilterRows(ctx, v, Where{"row.a.all(x, row.a.all(y, y == 0))"}, []map[string]any{{"a": numbers}})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// TestConditionOfNodesEnds evaluates a condition over nodes after the end of its time, and expects an error.
func TestConditionOfNodesEnds(t *testing.T) {
	c, err := where.CompileSearch(`node.name == "a"`)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := LimitConditionTime(t.Context())
		defer cancel()
		time.Sleep(maxConditionTime)
		synctest.Wait()
		v := view.New(view.Stores{Directory: noNodes{}}, view.Live{})
		if matches, err := NodeMatcher(ctx, v, c)(1); matches || model.ClassOf(err) != model.Limited {
			t.Errorf("%v %v", matches, err)
		}
	})
}

// noNodes is a directory without nodes.
type noNodes struct{ view.Directory }

// NodeName returns false.
func (noNodes) NodeName(model.NodeID) (namespace, name string, ok bool) { return "", "", false }

// NodeLabels returns no labels.
func (noNodes) NodeLabels(model.NodeID) map[string]string { return nil }

// NodeFacts returns no facts.
func (noNodes) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns no groups.
func (noNodes) NodeGroups(model.NodeID) []string { return nil }
