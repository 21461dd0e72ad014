package items

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/textlog"
)

// listTextValues returns the newest text values of the selected nodes and items. Nodes that the caller may not see are left
// out.
func (s *itemRequest) listTextValues(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node      string `query:"node" maxLength:"253" doc:"Of this node; needs namespace."`
	Key       string `query:"key" maxLength:"2048" doc:"Of the item with exactly this key."`
	Match     string `query:"match" maxLength:"1024" doc:"Each of these words is in the text, in upper or lower case."`
	Contains  string `query:"contains" maxLength:"1024" doc:"This is a part of the text, in upper or lower case."`
	list.Period
	list.NodeRows
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100" doc:"The newest so many, of at most 16 MiB."`
}) (*op.Body[v1.TextList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	if err := in.Validate(); err != nil {
		return nil, err
	}
	q := textlog.Query{Key: in.Key, Words: in.Match, Contains: in.Contains, Limit: in.Limit}
	if !in.Since.IsZero() {
		q.Since = in.Since.UnixNano()
	}
	if !in.Until.IsZero() {
		q.Until = in.Until.UnixNano() - 1
	}
	filter, err := list.NewNodeRowFilter(ctx, s.View, in.NodeRows)
	if err != nil {
		return nil, err
	}
	nodes := map[model.NodeID]bool{}
	for _, node := range filter.Nodes(s.View, in.Namespace) {
		nodes[node] = true
	}
	var failed error
	q.Accepts = func(row *textlog.Row) bool {
		if failed != nil || !nodes[row.Node] {
			return false
		}
		matches, err := filter.Match(row.Node, func() any { return s.showTextValue(row) })
		failed = err
		return matches
	}
	if in.Node != "" {
		node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
		if !ok {
			return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
		}
		q.Node = node
	}
	caller := access.CallerOf(ctx)
	leave, err := s.searches.Wait(ctx, caller.Owner())
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "the server is busy with other searches of text values").WithHint("name a node and an item, or a short period: --since 1h")
	}
	defer leave()
	rows, more, err := s.Texts(ctx, q)
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	out := v1.TextList{Items: make([]v1.TextValue, len(rows)), More: more}
	for i := range rows {
		out.Items[i] = s.showTextValue(&rows[i])
	}
	return op.Answer(out), nil
}

// showTextValue converts a text value of an item to the API type TextValue.
func (s *itemRequest) showTextValue(row *textlog.Row) v1.TextValue {
	out := v1.TextValue{Key: row.Key, At: time.Unix(0, row.At).UTC(), Text: row.Text}
	out.Namespace, out.Node, _ = s.Directory.NodeName(row.Node)
	out.Template = s.templateName(row.Unit, out.Namespace)
	return out
}
