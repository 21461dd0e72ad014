package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Nodes that are gone are not in the view any more. That they went is in the record of
// changes, and what they had is in history under their numbers: lists of what was end with them.

// deletedPrefix begins the token of a page of nodes that are gone.
const deletedPrefix = "gone."

// deletedPage is how many of them one page looks at.
const deletedPage = 50

// deletedNode is a node that was deleted, retired or forgotten at a time.
type deletedNode struct {
	id              model.NodeID
	namespace, name string
	at              time.Time
}

// deletedToken says whether a token is that of a page of nodes that are gone, and where it begins.
func (s *server) deletedToken(token string) (revision int64, part int, ok bool) {
	place, err := s.after(token)
	if token == "" || err != nil {
		return 0, 0, false
	}
	if place, ok = strings.CutPrefix(place, deletedPrefix); !ok {
		return 0, 0, false
	}
	before, after, _ := strings.Cut(place, ".")
	revision, err1 := strconv.ParseInt(before, 10, 64)
	part, err2 := strconv.Atoi(after)
	return revision, part, err1 == nil && err2 == nil
}

// deletedNodes lists nodes that went after a time and that a question is about, newest first, and the
// token of the next page.
func (s *server) deletedNodes(ctx context.Context, in *FilterInput, since time.Time, revision int64, part int) (list []deletedNode, next string, err error) {
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, "", err
	}
	q := intent.ChangeQuery{Kind: "Node", Namespace: in.Namespace, Name: in.Node, Gone: true, Since: since, Revision: revision, Part: part, Limit: deletedPage + 1, Bodies: in.Selector != ""}
	changes, err := s.Rows.ChangesBefore(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if len(changes) > deletedPage {
		changes = changes[:deletedPage]
		last := changes[deletedPage-1]
		next = s.next(fmt.Sprintf("%s%d.%d", deletedPrefix, last.Revision, last.Part))
	}
	for _, c := range changes {
		if in.Selector != "" {
			var was struct {
				Metadata model.Metadata `json:"metadata"`
			}
			if json.Unmarshal(c.Before, &was) != nil || !selector.Matches(was.Metadata.Labels) {
				continue
			}
		}
		if _, _, ok := s.Directory.NodeName(model.NodeID(c.ID)); ok {
			continue // it is going now: its events are still there
		}
		list = append(list, deletedNode{model.NodeID(c.ID), c.Key.Namespace, c.Key.Name, c.At})
	}
	return list, next, nil
}

// changesAfter are the changes of status of a node that is gone, by check, oldest first.
func (s *server) changesAfter(ctx context.Context, node model.NodeID, check string, since time.Time) (map[string][]history.Entry, error) {
	list, err := s.changesOf(ctx, node, check, since.Add(1), time.Time{})
	if err != nil {
		return nil, err
	}
	out := map[string][]history.Entry{}
	for _, e := range list {
		if e.Source.Kind == model.SourceCheck {
			out[e.SourceName] = append(out[e.SourceName], e)
		}
	}
	return out, nil
}

// lastBefore is the last change of each check of a node that is gone, up to a time.
func (s *server) lastBefore(ctx context.Context, node model.NodeID, check string, at time.Time) (map[string]history.Entry, error) {
	out := map[string]history.Entry{}
	for q := (history.EntryQuery{NodeID: node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: 1000}); ; {
		page, err := s.History.Entries(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if _, ok := out[e.SourceName]; !ok && e.Source.Kind == model.SourceCheck {
				out[e.SourceName] = e
			}
		}
		if len(page) < q.Limit || check != "" {
			return out, nil
		}
		q.Before, q.BeforeID = page[len(page)-1].At, page[len(page)-1].ID
	}
}

// was is what an event was at a time, given its last change up to then and the first after.
func was(before history.Entry, known bool, after []history.Entry) pastStatus {
	switch {
	case known:
		return pastStatus{true, before.Status, before.At, before.Output}
	case len(after) > 0 && !after[0].First:
		return pastStatus{known: true, status: after[0].Previous}
	}
	return pastStatus{}
}

// deletedEvents shows what each event of a node that is gone was at a time, and its changes since.
func (s *server) deletedEvents(ctx context.Context, n deletedNode, check string, at time.Time, fn func(check string, is pastStatus, after []history.Entry)) error {
	after, err := s.changesAfter(ctx, n.id, check, at)
	if err != nil {
		return err
	}
	before, err := s.lastBefore(ctx, n.id, check, at)
	if err != nil {
		return err
	}
	var names []string
	for name := range after {
		names = append(names, name)
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		last, known := before[name]
		fn(name, was(last, known, after[name]), after[name])
	}
	return nil
}

// pastOfDeleted adds a page of what events of nodes that are gone were.
func (s *server) pastOfDeleted(ctx context.Context, in *FilterInput, rows *narrowed, revision int64, part int, out *v1.PastEventList) error {
	list, next, err := s.deletedNodes(ctx, in, out.At, revision, part)
	if out.Next = next; err != nil {
		return err
	}
	for _, n := range list {
		err := s.deletedEvents(ctx, n, in.Check, out.At, func(check string, is pastStatus, _ []history.Entry) {
			one := v1.PastEvent{Namespace: n.namespace, Node: n.name, Check: check, Gone: n.at,
				Status: is.status, StatusName: is.status.String(), Changed: is.changed, Output: is.output}
			if is.known && rows.picks(n.id, func() any { return &one }) {
				out.Items = append(out.Items, one)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// availabilityOfDeleted adds a page of how long events of nodes that are gone had which status, up
// to when they went.
func (s *server) availabilityOfDeleted(ctx context.Context, in *FilterInput, rows *narrowed, p Period, revision int64, part int, out *v1.AvailabilityList) error {
	list, next, err := s.deletedNodes(ctx, in, p.Since, revision, part)
	if out.Next = next; err != nil {
		return err
	}
	for _, n := range list {
		until := p
		if n.at.Before(p.Until) {
			until.Until = n.at
		}
		err := s.deletedEvents(ctx, n, in.Check, p.Since, func(check string, is pastStatus, after []history.Entry) {
			one := v1.Availability{Namespace: n.namespace, Node: n.name, Check: check, Gone: n.at}
			if sumUp(&one, spellsOf(until, is, after)); one.Known() > 0 && rows.picks(n.id, func() any { return &one }) {
				out.Items = append(out.Items, one)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
