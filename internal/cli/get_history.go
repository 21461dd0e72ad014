package cli

import (
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getHistory lists entries of history, newest first; names holds at most one NODE or NODE/CHECK.
func getHistory(c *call, names []string, g *getFlags) (err error) {
	q := v1.HistoryQuery{Namespace: c.nsUnless(g.all), Node: g.node, Check: g.check, Narrow: g.Narrow}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "history of one node or event at a time, or of all").WithHint("muster get history %s", names[0])
	}
	if len(names) == 1 {
		q.Node, q.Check, _ = strings.Cut(names[0], "/")
	}
	if q.Since, q.Until, err = g.period.read(c.Now()); err != nil {
		return err
	}
	items, next, err := client.Pages(g.limit, func(size int, after string) ([]v1.Entry, string, error) {
		q.Limit, q.After = size, after
		page, err := c.api.Events.Entries(c.ctx, q)
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	more := ""
	if next != "" {
		more = "there are older entries: --limit 0 shows all, --until TIME those before a time"
	}
	return list[v1.Entry]{
		value: v1.EntryList{Items: items, Next: next}, items: items, notes: []string{more},
		empty: "no history: it keeps changes of status for the time of the server's --history-retention",
		columns: []screen.Column[v1.Entry]{
			screen.Col("NAMESPACE", func(e v1.Entry) any { return e.Namespace }).If(g.all),
			screen.Col("WHEN", func(e v1.Entry) any { return c.Date(e.At) }),
			screen.Col("NODE", func(e v1.Entry) any { return e.Node }),
			screen.Col("CHECK", func(e v1.Entry) any { return e.Source.String() }),
			screen.Col("WHAT", func(e v1.Entry) any {
				cell := screen.Cell{Text: entryText(e)}
				if e.Kind == "status" {
					cell.Colour = statusCell(e.Status).Colour
				}
				return cell
			}),
		},
	}.print(c)
}
