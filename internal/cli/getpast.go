package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getPastEvents shows events as they were: get events --at.
func (a *app) getPastEvents(ctx context.Context, c *client.Client, f v1.EventFilter, g *getFlags) error {
	if g.watch || g.problem {
		return model.Errorf(model.Invalid, "--at shows what was: --watch and --problem are about what is").WithHint("muster get problems shows those that have ended, too")
	}
	at, err := instant("at", g.at, a.Now())
	if err != nil {
		return err
	}
	statuses, err := statusesOf(f.Status)
	if err != nil {
		return err
	}
	f.Status, f.Limit = "", 100
	var list v1.PastEventList
	for {
		page, err := c.Events.ListAt(ctx, f, at)
		if err != nil {
			return err
		}
		for _, e := range page.Items {
			if len(statuses) == 0 || statuses[e.Status] {
				list.Items = append(list.Items, e)
			}
		}
		list.At, f.After = page.At, page.Next
		if list.Next = page.Next; f.After == "" || g.limit > 0 && len(list.Items) >= g.limit {
			break
		}
	}
	slices.SortStableFunc(list.Items, func(a, b v1.PastEvent) int { return cmp.Compare(rankOf(b.Status), rankOf(a.Status)) })
	if g.limit > 0 && len(list.Items) > g.limit {
		list.Items, list.Next = list.Items[:g.limit], "more"
	}
	if g.output.machine() {
		return a.printValue(*g.output, list)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no events at that time that history knows of")
		return nil
	}
	head := []string{"STATUS", "NODE", "CHECK", "SINCE", "OUTPUT"}
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	t := newTable(head...)
	for _, e := range list.Items {
		var row []any
		if g.all {
			row = append(row, e.Namespace)
		}
		since := "–"
		if !e.Changed.IsZero() {
			since = e.Changed.In(a.Zone).Format("2006-01-02 15:04:05")
		}
		if !e.Gone.IsZero() {
			e.Node += " (gone)"
		}
		t.add(append(row, statusCell(e.Status), e.Node, e.Check, since, summary(e.Output))...)
	}
	if err := t.write(a.narrow(*g.output)); err != nil {
		return err
	}
	if list.Next != "" {
		fmt.Fprintln(a.Stdout, "there are more: --limit 0 shows all")
	}
	return nil
}

// rankOf puts what is critical before what is unknown.
func rankOf(s model.Status) int {
	return [...]int{model.OK: 0, model.Warning: 1, model.Critical: 3, model.Unknown: 2}[s&3]
}

// statusesOf reads --status.
func statusesOf(text string) (map[model.Status]bool, error) {
	out := map[model.Status]bool{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		status, ok := model.ParseStatus(word)
		if !ok {
			return nil, model.Errorf(model.Invalid, "status %q is not known", word).WithHint("ok, warning, critical or unknown; or 0 to 3")
		}
		out[status] = true
	}
	return out, nil
}
