package problems

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// The event view has no deleted nodes. The record of changes has their deletion, and history has
// their events, sorted by id. So lists of past events end with pages of deleted nodes.

// deletedPagePrefix is the prefix of the page tokens of deleted nodes.
const deletedPagePrefix = "gone."

// deletedNodesPerPage is the number of deleted nodes of one page.
const deletedNodesPerPage = 50

// newDeletedPageToken returns the page token of the next page of deleted nodes. The cursor holds the
// revision and the part of the change.
func (s *problemRequest) newDeletedPageToken(behind list.Cursor) string {
	return s.NewPageToken(deletedPagePrefix + behind.String())
}

// parseDeletedPageToken parses a page token for deleted nodes. For a token of another kind, ok is false.
func (s *problemRequest) parseDeletedPageToken(token string) (behind list.Cursor, ok bool) {
	place, err := s.ParsePageToken(token)
	if place, ok = strings.CutPrefix(place, deletedPagePrefix); !ok || err != nil {
		return behind, false
	}
	behind, err = list.ParseCursor(place)
	return behind, err == nil
}

// listDeletedNodes returns a page of the selected nodes that were deleted since a time, newest first. It also returns
// the token of the next page.
func (s *problemRequest) listDeletedNodes(ctx context.Context, in *events.Selection, since time.Time, behind list.Cursor) (nodes []pastEvent, next string, err error) {
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, "", err
	}
	part, err := behind.IntID()
	if err != nil {
		return nil, "", err
	}
	q := intent.ChangeQuery{
		Kind: "Node", Namespace: in.Namespace, Name: in.Node, OnlyDeletions: true, Since: since,
		Revision: behind.Number, Part: int(part), Limit: deletedNodesPerPage + 1, Bodies: in.Selector != "",
	}
	changes, err := s.Rows.ChangesBefore(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if len(changes) > deletedNodesPerPage {
		changes = changes[:deletedNodesPerPage]
		last := changes[deletedNodesPerPage-1]
		next = s.newDeletedPageToken(list.Cursor{Number: last.Revision, ID: strconv.Itoa(last.Part)})
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
			continue // the deletion of the node is in progress, and the event view still has its events
		}
		nodes = append(nodes, pastEvent{node: model.NodeID(c.ID), namespace: c.Key.Namespace, name: c.Key.Name, deleted: c.At})
	}
	return nodes, next, nil
}

// eachDeletedEvent calls the function fn with each event that the deleted nodes of one list page had. An error of fn
// ends the calls.
func (s *problemRequest) eachDeletedEvent(ctx context.Context, in *events.Selection, at time.Time, behind list.Cursor, fn func(*pastEvent) error) (next string, err error) {
	nodes, next, err := s.listDeletedNodes(ctx, in, at, behind)
	if err != nil {
		return "", err
	}
	for i := range nodes {
		byCheck := map[string]*pastEvent{}
		eventOf := func(e *history.Entry) *pastEvent {
			if byCheck[e.SourceName] == nil {
				one := nodes[i]
				one.check, one.source = e.SourceName, events.ShowSource(e.Source, e.SourceName)
				byCheck[e.SourceName] = &one
			}
			return byCheck[e.SourceName]
		}
		changes, err := s.readStatusChangesSince(ctx, nodes[i].node, in.Check, at)
		if err != nil {
			return "", err
		}
		for j := range changes {
			if changes[j].Source.Kind == model.SourceCheck {
				one := eventOf(&changes[j])
				one.changes = append(one.changes, changes[j])
			}
		}
		for _, one := range byCheck {
			one.changes = addFirstResults(one.changes, at)
			one.was = statusBefore(one.changes)
		}
		err = s.eachLastStatusChange(ctx, nodes[i].node, in.Check, at, func(e *history.Entry) { eventOf(e).was = statusAfter(e) })
		if err != nil {
			return "", err
		}
		for _, check := range slices.Sorted(maps.Keys(byCheck)) {
			if err := fn(byCheck[check]); err != nil {
				return "", err
			}
		}
	}
	return next, nil
}

// eachLastStatusChange calls fn with the last status change of each check of a deleted node. Only changes up to a
// given time count.
func (s *problemRequest) eachLastStatusChange(ctx context.Context, node model.NodeID, check string, at time.Time, fn func(*history.Entry)) error {
	done := map[string]bool{}
	for e, err := range s.eachStatusChange(ctx, history.EntryQuery{NodeID: node, Check: check, Before: at.Add(1)}) {
		if err != nil {
			return err
		}
		if e.Source.Kind != model.SourceCheck || done[e.SourceName] {
			continue
		}
		done[e.SourceName] = true
		if fn(e); check != "" {
			return nil
		}
	}
	return nil
}
