package cli

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// shadowParts are what messages are told apart by.
func shadowParts() []string { return []string{"day", "handler", "route", "check", "node"} }

func (a *app) shadowCmd() *cobra.Command {
	var output *format
	var p period
	var all, each bool
	var narrow v1.Narrow
	var by []string
	var limit int
	c := &cobra.Command{
		Use: "shadow", Short: "What namespaces with notifications: shadow would have sent",
		Long: "Counts the messages that a namespace with notifications: shadow worked out and did not send, or\n" +
			"lists each (--each), to be compared with what another system sent. OPENED are first messages of\n" +
			"problems; AGAIN are those of them about an event that the same handler had heard of before in\n" +
			"this time; REMINDED repeat what lasts. A message of several problems is one, and stands for the worst.",
		Example: "  muster report shadow -n beside --since 7d\n  muster report shadow -n beside --by day,handler\n  muster report shadow -n beside --each --since 24h\n" +
			"  muster report shadow -n beside --since 7d -o csv > would-have-paged.csv",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, part := range by {
				if !slices.Contains(shadowParts(), part) {
					return model.Errorf(model.Invalid, "--by %q is not known", part).WithHint("some of %s, with commas", strings.Join(shadowParts(), ", "))
				}
			}
			list, err := a.shadow(c, &p, all, narrow.Where)
			if err != nil {
				return err
			}
			rows := a.countShadow(list.Items, by, all)
			switch {
			case *output == "csv":
				return a.shadowCSV(list.Items)
			case output.machine():
				return a.printValue(*output, struct {
					v1.ShadowList
					Rows []shadowRow `json:"rows"`
				}{list, rows})
			case len(list.Items) == 0:
				fmt.Fprintf(a.Stdout, "nothing would have been sent %s\n", a.fromTo(list.Since, list.Until))
			case each:
				err = a.printEach(list.Items, all, limit, *output)
			default:
				err = a.printShadow(&list, rows, by, all, limit, *output)
			}
			a.printNotes(list.Notes)
			return err
		},
	}
	output = formatWith(c, "csv")
	p.flags(c, "7d", "")
	flags := c.Flags()
	flags.BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	whereFlag(c, &narrow, `row.severity == "high"`)
	flags.BoolVar(&each, "each", false, "list each message, the newest first")
	flags.StringSliceVar(&by, "by", []string{"handler", "route", "check"}, "what a row is: some of "+strings.Join(shadowParts(), ", "))
	flags.IntVar(&limit, "limit", 50, "rows at most (0: all)")
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(shadowParts(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// shadow reads all pages.
func (a *app) shadow(c *cobra.Command, p *period, all bool, where string) (list v1.ShadowList, err error) {
	client, err := a.connect()
	if err != nil {
		return list, err
	}
	q := v1.ReportQuery{Namespace: a.ns(), Where: where}
	if all {
		q.Namespace = ""
	}
	if q.Since, q.Until, err = p.read(a.Now()); err != nil {
		return list, err
	}
	return shadowPages(q, shadowMost, func(q v1.ReportQuery) (v1.ShadowList, error) { return client.Reports.Shadow(c.Context(), q) })
}

// shadowMost is how many messages one report holds: some 100 MB.
const shadowMost = 200_000

// shadowPages reads pages, the newest first, until there are no more or so many messages are held.
func shadowPages(q v1.ReportQuery, most int, read func(v1.ReportQuery) (v1.ShadowList, error)) (list v1.ShadowList, err error) {
	list.Items = []v1.ShadowMessage{}
	for {
		page, err := read(q)
		if err != nil {
			return list, err
		}
		if q.After == "" {
			list.Since, list.Until, list.Notes = page.Since, page.Until, page.Notes
		}
		list.Items = append(list.Items, page.Items...)
		if len(list.Items) >= most && page.Next != "" {
			list.Items = slices.Clip(list.Items[:most])
			list.Notes = append(list.Notes, fmt.Sprintf("there are more than %d messages: only those since %s are counted; ask for a shorter time, or for one namespace (-n)",
				most, list.Items[most-1].At.UTC().Format(time.RFC3339)))
			return list, nil
		}
		if q.Until, q.After = list.Until, page.Next; q.After == "" {
			return list, nil
		}
	}
}

// shadowRow is what the messages of one row of a report came to.
type shadowRow struct {
	Namespace    string    `json:"namespace,omitempty"`
	Handler      string    `json:"handler,omitempty"`
	Route        string    `json:"route,omitempty"`
	Check        string    `json:"check,omitempty"`
	Node         string    `json:"node,omitempty"`
	Day          string    `json:"day,omitempty"`
	Opened       int       `json:"opened"`
	Again        int       `json:"again"`
	Reminded     int       `json:"reminded"`
	Acknowledged int       `json:"acknowledged"`
	Closed       int       `json:"closed"`
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
}

func (r *shadowRow) calls() int { return r.Opened + r.Reminded }

// countShadow makes rows of messages, those that call most first; by day, in order.
func (a *app) countShadow(items []v1.ShadowMessage, by []string, all bool) []shadowRow {
	of := map[shadowRow]*shadowRow{}
	heard := map[[4]string]bool{} // by handler and event
	for _, m := range slices.Backward(items) {
		key := shadowRow{}
		if all {
			key.Namespace = m.Namespace
		}
		for _, part := range by {
			switch part {
			case "handler":
				key.Handler = m.Handler
			case "route":
				key.Route = m.Route
			case "check":
				key.Check = m.Check
			case "node":
				key.Node = m.Node
			case "day":
				key.Day = m.At.In(a.Zone).Format(time.DateOnly)
			}
		}
		row := of[key]
		if row == nil {
			one := key
			one.First = m.At
			row, of[key] = &one, &one
		}
		row.Last = m.At
		event := [4]string{m.Handler, m.Namespace, m.Node, m.Check}
		switch m.Tells {
		case "reminder":
			row.Reminded++
		case "closed":
			row.Closed++
		case "acknowledged":
			row.Acknowledged++
		default:
			if row.Opened++; heard[event] {
				row.Again++
			}
			heard[event] = true
		}
	}
	rows := []shadowRow{}
	for _, row := range of {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(x, y shadowRow) int {
		return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(y.calls(), x.calls()), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Handler, y.Handler),
			cmp.Compare(x.Route, y.Route), cmp.Compare(x.Check, y.Check), cmp.Compare(x.Node, y.Node))
	})
	return rows
}

// here is a name without the namespace that is looked at.
func (a *app) here(name string) string {
	return cmp.Or(strings.TrimPrefix(name, a.ns()+"/"), "–")
}

const minutes = "2006-01-02 15:04"

func (a *app) fromTo(since, until time.Time) string {
	return fmt.Sprintf("from %s to %s", since.In(a.Zone).Format(minutes), until.In(a.Zone).Format(minutes))
}

// printNotes says what a report cannot know.
func (a *app) printNotes(notes []string) {
	for _, note := range notes {
		fmt.Fprintf(a.Stdout, "! %s\n", clean(note, false))
	}
}

func (a *app) printShadow(list *v1.ShadowList, rows []shadowRow, by []string, all bool, limit int, f format) error {
	var head []string
	if all {
		head = append(head, "NAMESPACE")
	}
	for _, part := range shadowParts() {
		if slices.Contains(by, part) {
			head = append(head, strings.ToUpper(part))
		}
	}
	t := newTable(append(head, "OPENED", "AGAIN", "REMINDED", "CLOSED", "FIRST", "LAST")...)
	sum, form := shadowRow{}, "01-02 15:04"
	if list.Since.In(a.Zone).Year() != list.Until.In(a.Zone).Year() || f == "wide" {
		form = minutes
	}
	for i := range rows {
		r := &rows[i]
		sum.Opened, sum.Again, sum.Reminded = sum.Opened+r.Opened, sum.Again+r.Again, sum.Reminded+r.Reminded
		if limit > 0 && i >= limit {
			continue
		}
		var row []any
		if all {
			row = append(row, r.Namespace)
		}
		for _, part := range shadowParts() {
			if slices.Contains(by, part) {
				row = append(row, map[string]string{"handler": a.here(r.Handler), "route": a.here(r.Route), "check": r.Check, "node": r.Node, "day": r.Day}[part])
			}
		}
		t.add(append(row, orDash(r.Opened), orDash(r.Again), orDash(r.Reminded), orDash(r.Closed), r.First.In(a.Zone).Format(form), r.Last.In(a.Zone).Format(form))...)
	}
	if err := t.write(a.narrow(f)); err != nil {
		return err
	}
	if more := len(rows) - limit; limit > 0 && more > 0 {
		fmt.Fprintf(a.Stdout, "%d more: --limit 0 shows all\n", more)
	}
	fmt.Fprintf(a.Stdout, "%s would have called somebody %s (%d opened, of which %d again; %d repeated); none was sent. --each lists them, -o csv for a spreadsheet\n",
		model.CountNoun(sum.calls(), "message"), a.fromTo(list.Since, list.Until), sum.Opened, sum.Again, sum.Reminded)
	return nil
}

func (a *app) printEach(items []v1.ShadowMessage, all bool, limit int, f format) error {
	head := []string{"WHEN", "HANDLER", "TELLS", "NODE", "CHECK", "STATUS", "SUMMARY"}
	if all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	t := newTable(head...)
	for i, m := range items {
		if limit > 0 && i >= limit {
			break
		}
		var row []any
		if all {
			row = append(row, m.Namespace)
		}
		status, _ := model.ParseStatus(m.Status)
		t.add(append(row, m.At.In(a.Zone).Format("01-02 15:04:05"), a.here(m.Handler), m.Tells, m.Node, m.Check, statusCell(status), m.Summary)...)
	}
	if err := t.write(a.narrow(f)); err != nil {
		return err
	}
	if more := len(items) - limit; limit > 0 && more > 0 {
		fmt.Fprintf(a.Stdout, "%d more, before: --limit 0 shows all\n", more)
	}
	return nil
}

// shadowCSV writes each message, the oldest first, as one row for a spreadsheet.
func (a *app) shadowCSV(items []v1.ShadowMessage) error {
	w := csv.NewWriter(a.Stdout)
	_ = w.Write([]string{"at", "handler", "route", "tells", "namespace", "node", "check", "status", "severity", "count", "problem", "opened", "summary"})
	for _, m := range slices.Backward(items) {
		row := []string{m.At.UTC().Format(time.RFC3339), m.Handler, m.Route, m.Tells, m.Namespace, m.Node, m.Check, m.Status, m.Severity, strconv.Itoa(m.Count), m.Problem, m.Opened.UTC().Format(time.RFC3339), m.Summary}
		for i := range row {
			row[i] = harmless(row[i])
		}
		_ = w.Write(row)
	}
	w.Flush()
	return w.Error()
}

// harmless is text that no spreadsheet takes for a formula: an output is whatever a plug-in wrote.
func harmless(text string) string {
	if text = clean(text, false); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

func orDash(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}
