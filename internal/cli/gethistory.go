package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// period is --since and --until.
type period struct{ since, until string }

func (p *period) flags(c *cobra.Command, since, usage string) {
	c.Flags().StringVar(&p.since, "since", since, usage+"from then on: 24h ago, or 2026-12-24T18:00:00Z")
	c.Flags().StringVar(&p.until, "until", "", usage+"up to then, written as --since")
}

func (p *period) read(now time.Time) (since, until time.Time, err error) {
	if since, err = instant("since", p.since, now); err != nil {
		return since, until, err
	}
	if until, err = instant("until", p.until, now); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, model.Errorf(model.Invalid, "--since %s is not before --until %s", p.since, p.until).WithHint("a length counts back from now: --since 2d --until 1d is the day before this one")
	}
	return since, until, nil
}

// instant is a time, written as such or as how long ago.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := model.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-time.Duration(d)), nil
	}
	quoted, _ := json.Marshal(text)
	var t model.Time
	if t.UnmarshalJSON(quoted) != nil {
		return time.Time{}, model.Errorf(model.Invalid, "--%s %q is no time", flag, text).WithHint("how long ago: 90m, 24h, 7d; or a time: %s", now.UTC().Format(time.RFC3339))
	}
	return t.Time, nil
}

// getHistory shows what happened to events; names are NODE or NODE/CHECK, at most one.
func (a *app) getHistory(ctx context.Context, c *client.Client, names []string, g *getFlags) error {
	q := v1.HistoryQuery{Namespace: a.ns(), Node: g.node, Check: g.check, Narrow: g.narrow()}
	if g.all {
		q.Namespace = ""
	}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "history is of one node or event at a time, or of all").WithHint("muster get history %s", names[0])
	}
	if len(names) == 1 {
		q.Node, q.Check, _ = strings.Cut(names[0], "/")
	}
	var err error
	if q.Since, q.Until, err = g.period.read(a.Now()); err != nil {
		return err
	}
	var items []v1.Entry
	for {
		if q.Limit = pageRows; g.limit > 0 {
			q.Limit = min(q.Limit, g.limit-len(items))
		}
		page, err := c.Events.Entries(ctx, q)
		if err != nil {
			return err
		}
		items = append(items, page.Items...)
		if q.After = page.Next; q.After == "" || g.limit > 0 && len(items) >= g.limit {
			break
		}
	}
	if g.output.machine() {
		return a.printValue(*g.output, v1.EntryList{Items: items, Next: q.After})
	}
	if len(items) == 0 {
		fmt.Fprintln(a.Stdout, "nothing happened that history holds; it keeps changes of status, and for as long as the server's --history-retention says")
		return nil
	}
	head := []string{"WHEN", "NODE", "CHECK", "WHAT"}
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	t := newTable(head...)
	for _, e := range items {
		var row []any
		if g.all {
			row = append(row, e.Namespace)
		}
		what := cell{text: entryText(e)}
		if e.Kind == "status" {
			what.colour = statusCell(e.Status).colour
		}
		t.add(append(row, e.At.In(a.Zone).Format("2006-01-02 15:04:05"), e.Node, e.Source.String(), what)...)
	}
	if err := t.write(a.narrow(*g.output)); err != nil {
		return err
	}
	if q.After != "" {
		fmt.Fprintln(a.Stdout, "there is more before: --limit 0 shows all, --until TIME what was before then")
	}
	return nil
}
