package problems

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// The event view has no deleted nodes. The record of changes has their deletion, and history has
// their events, by id. So lists of past events end with pages of deleted nodes.

// deletedPrefix begins the place of a page of deleted nodes.
const deletedPrefix = "gone."

// deletedPage is the number of deleted nodes of one page.
const deletedPage = 50

// deletedNode is a node that was deleted, retired or forgotten at a time.
type deletedNode struct {
	id              model.NodeID
	namespace, name string
	at              time.Time
}

// deletedEvent is an event of a deleted node.
type deletedEvent struct {
	node    deletedNode
	check   string
	was     pastStatus      // at the time in question
	changes []history.Entry // since that time, oldest first
}

// changePlace is a place in the record of changes; zero: the newest change.
type changePlace struct {
	revision int64
	part     int
}

// nextDeleted returns the token of the page of deleted nodes that begins behind a change.
func (s *request) nextDeleted(p changePlace) string {
	return s.NextPage(fmt.Sprintf("%s%d.%d", deletedPrefix, p.revision, p.part))
}

// deletedPlace returns the place of a page of deleted nodes; false: the token is of another page.
func (s *request) deletedPlace(token string) (p changePlace, ok bool) {
	if token == "" {
		return p, false
	}
	place, err := s.PagePlace(token)
	if place, ok = strings.CutPrefix(place, deletedPrefix); !ok || err != nil {
		return p, false
	}
	revision, part, _ := strings.Cut(place, ".")
	p.revision, err = strconv.ParseInt(revision, 10, 64)
	if err == nil {
		p.part, err = strconv.Atoi(part)
	}
	return p, err == nil
}

// deletedNodes returns a page of the selected nodes that were deleted since a time, newest first,
// and the token of the next page.
func (s *request) deletedNodes(ctx context.Context, in *events.Selection, since time.Time, behind changePlace) (nodes []deletedNode, next string, err error) {
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, "", err
	}
	q := intent.ChangeQuery{
		Kind: "Node", Namespace: in.Namespace, Name: in.Node, Gone: true, Since: since,
		Revision: behind.revision, Part: behind.part, Limit: deletedPage + 1, Bodies: in.Selector != "",
	}
	changes, err := s.Rows.ChangesBefore(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if len(changes) > deletedPage {
		changes = changes[:deletedPage]
		last := changes[deletedPage-1]
		next = s.nextDeleted(changePlace{last.Revision, last.Part})
	}
	for _, c := range changes {
		if in.Selector != "" {
			var node struct {
				Metadata model.Metadata `json:"metadata"`
			}
			if json.Unmarshal(c.Before, &node) != nil || !selector.Matches(node.Metadata.Labels) {
				continue
			}
		}
		if _, _, ok := s.Directory.NodeName(model.NodeID(c.ID)); ok {
			continue // its deletion is in progress, and the view has its events
		}
		nodes = append(nodes, deletedNode{model.NodeID(c.ID), c.Key.Namespace, c.Key.Name, c.At})
	}
	return nodes, next, nil
}

// eachDeletedEvent calls fn with every event of a page of deleted nodes, and returns the token of the next page.
func (s *request) eachDeletedEvent(ctx context.Context, in *events.Selection, at time.Time, behind changePlace, fn func(*deletedEvent)) (next string, err error) {
	nodes, next, err := s.deletedNodes(ctx, in, at, behind)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		changes, err := s.changesSince(ctx, n.id, in.Check, at)
		if err != nil {
			return "", err
		}
		byCheck := map[string]*deletedEvent{}
		of := func(e *history.Entry) *deletedEvent {
			if byCheck[e.SourceName] == nil {
				byCheck[e.SourceName] = &deletedEvent{node: n, check: e.SourceName}
			}
			return byCheck[e.SourceName]
		}
		for i := range changes {
			if e := &changes[i]; e.Source.Kind == model.SourceCheck {
				d := of(e)
				d.changes = append(d.changes, *e)
			}
		}
		for _, d := range byCheck {
			d.was = statusBefore(d.changes)
		}
		if err := s.eachLastChange(ctx, n.id, in.Check, at, func(e *history.Entry) { of(e).was = statusAfter(e) }); err != nil {
			return "", err
		}
		list := make([]*deletedEvent, 0, len(byCheck))
		for _, d := range byCheck {
			list = append(list, d)
		}
		slices.SortFunc(list, func(a, b *deletedEvent) int { return strings.Compare(a.check, b.check) })
		for _, d := range list {
			fn(d)
		}
	}
	return next, nil
}

// eachLastChange calls fn with the last status change of each check of a deleted node up to a time.
func (s *request) eachLastChange(ctx context.Context, node model.NodeID, check string, at time.Time, fn func(*history.Entry)) error {
	done := map[string]bool{}
	for q := (history.EntryQuery{NodeID: node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: historyPage}); ; {
		page, err := s.History.Entries(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if e := &page[i]; e.Source.Kind == model.SourceCheck && !done[e.SourceName] {
				done[e.SourceName] = true
				fn(e)
			}
		}
		if len(page) < q.Limit || check != "" {
			return nil
		}
		q.Before, q.BeforeID = page[len(page)-1].At, page[len(page)-1].ID
	}
}
