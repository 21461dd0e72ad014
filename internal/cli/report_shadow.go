package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// shadowReportFlags holds the flags of muster report shadow. The report lists notifications that namespaces in shadow
// mode did not send.
type shadowReportFlags struct {
	reportFlags
	everyMessage bool
	by           []string
}

// shadowKeys are the properties by which the report may group messages.
var shadowKeys = []string{"day", "handler", "route", "check", "node"}

// shadowCommand makes the command muster report shadow, about the notifications of namespaces in shadow mode. Such a
// namespace records its notifications and sends none.
func shadowCommand(s *commandLine) *cobra.Command {
	f := &shadowReportFlags{}
	c := s.buildCommand(command{
		use: "shadow", short: "Report the messages that namespaces with notifications: shadow did not send",
		args: cobra.NoArgs, formats: []string{"csv"},
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags, "7d", 50)
			f.registerWhere(flags, whereRowHelp(`row.severity == "high"`))
			flags.BoolVar(&f.everyMessage, "each", false, "list each message, newest first")
			flags.StringSliceVar(&f.by, "by", []string{"handler", "route", "check"}, "key of a row, one or more of "+strings.Join(shadowKeys, ", "))
		},
		check: func(c *commandCall) error {
			for _, key := range f.by {
				if !slices.Contains(shadowKeys, key) {
					return model.Errorf(model.Invalid, "--by: unknown value %q", key).WithHint("one or more of %s, comma-separated", strings.Join(shadowKeys, ", "))
				}
			}
			return f.reportFlags.validate(c)
		},
		run: func(c *commandCall) error {
			l, err := readShadowMessages(f.buildQuery(c), maxShadow, func(q v1.ReportQuery) (v1.ShadowList, error) { return c.api.Reports.Shadow(c.ctx, q) })
			if err != nil {
				return err
			}
			rows := countShadowMessages(c, f, l.Items)
			switch {
			case c.Format == "csv":
				return printShadowCSV(c, l.Items)
			case c.Format.IsForPrograms():
				return c.WriteValue(struct {
					v1.ShadowList
					Rows []shadowMessageCounts `json:"rows"`
				}{l, rows})
			case len(l.Items) == 0:
				c.Printf("no message %s\n", reportPeriodText(c, l.Since, l.Until))
			case f.everyMessage:
				err = printShadowMessages(c, f, l.Items)
			default:
				err = printShadowCounts(c, f, &l, rows)
			}
			printReportGaps(c, l.Notes)
			return err
		},
	})
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(shadowKeys, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// maxShadow is how many messages one report reads: about 100 MB.
const maxShadow = 200_000

// readShadowMessages reads the newest notifications that namespaces in shadow mode did not send, up to the given
// number. A note then names the period that is missing.
func readShadowMessages(q v1.ReportQuery, most int, read func(v1.ReportQuery) (v1.ShadowList, error)) (l v1.ShadowList, err error) {
	l.Items = []v1.ShadowMessage{}
	for {
		page, err := read(q)
		if err != nil {
			return l, err
		}
		if q.After == "" {
			l.Since, l.Until, l.Notes = page.Since, page.Until, page.Notes
		}
		l.Items = append(l.Items, page.Items...)
		if len(l.Items) >= most && page.Next != "" {
			l.Items = slices.Clip(l.Items[:most])
			l.Notes = append(l.Notes, fmt.Sprintf("more than %d messages: only messages since %s count. Report a shorter time, or one namespace (-n)",
				most, l.Items[most-1].At.UTC().Format(time.RFC3339)))
			return l, nil
		}
		if q.Until, q.After = l.Until, page.Next; q.After == "" {
			return l, nil
		}
	}
}

// shadowMessageCounts counts the unsent notifications in one row of the shadow report, such as of one handler.
// A row is about one handler and route, for example.
type shadowMessageCounts struct {
	Namespace    string    `json:"namespace,omitempty"`
	Handler      string    `json:"handler,omitempty"`
	Route        string    `json:"route,omitempty"`
	Check        string    `json:"check,omitempty"`
	Node         string    `json:"node,omitempty"`
	Day          string    `json:"day,omitempty"`
	Opened       int       `json:"opened"`
	Repeated     int       `json:"repeated"`
	Reminded     int       `json:"reminded"`
	Acknowledged int       `json:"acknowledged"`
	Closed       int       `json:"closed"`
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
}

// countPages returns the number of unsent notifications that would have paged a person.
func (r *shadowMessageCounts) countPages() int { return r.Opened + r.Reminded }

// countShadowMessages counts the unsent notifications of shadow-mode namespaces per handler, route, day or
// other key. These notifications were not sent.
func countShadowMessages(c *commandCall, f *shadowReportFlags, items []v1.ShadowMessage) []shadowMessageCounts {
	byKey := map[shadowMessageCounts]*shadowMessageCounts{}
	notified := map[[4]string]bool{} // by handler and event
	for _, m := range slices.Backward(items) {
		key := shadowMessageCounts{}
		if c.allNamespaces {
			key.Namespace = m.Namespace
		}
		for _, part := range f.by {
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
				key.Day = m.At.In(c.Zone).Format(time.DateOnly)
			}
		}
		row := byKey[key]
		if row == nil {
			one := key
			one.First = m.At
			row, byKey[key] = &one, &one
		}
		row.Last = m.At
		event := [4]string{m.Handler, m.Namespace, m.Node, m.Check}
		switch m.Event {
		case "reminder":
			row.Reminded++
		case "closed":
			row.Closed++
		case "acknowledged":
			row.Acknowledged++
		default:
			if row.Opened++; notified[event] {
				row.Repeated++
			}
			notified[event] = true
		}
	}
	rows := []shadowMessageCounts{}
	for _, row := range byKey {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(x, y shadowMessageCounts) int {
		return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(y.countPages(), x.countPages()), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Handler, y.Handler),
			cmp.Compare(x.Route, y.Route), cmp.Compare(x.Check, y.Check), cmp.Compare(x.Node, y.Node))
	})
	return rows
}

// printShadowCounts prints a table with the numbers of notifications that shadow namespaces did not send.
func printShadowCounts(c *commandCall, f *shadowReportFlags, l *v1.ShadowList, rows []shadowMessageCounts) error {
	sum := shadowMessageCounts{}
	for _, r := range rows {
		sum.Opened, sum.Repeated, sum.Reminded = sum.Opened+r.Opened, sum.Repeated+r.Repeated, sum.Reminded+r.Reminded
	}
	format := "01-02 15:04"
	if l.Since.In(c.Zone).Year() != l.Until.In(c.Zone).Year() || c.Format == screen.Wide {
		format = minuteFormat
	}
	shown, more := cutRows(f.limit, rows)
	columns := screen.SplitColumns("NAMESPACE|DAY|HANDLER|ROUTE|CHECK|NODE|OPENED|AGAIN|REMINDED|CLOSED|FIRST|LAST").HideUnless(c.allNamespaces, "NAMESPACE")
	for _, key := range shadowKeys {
		columns.HideUnless(slices.Contains(f.by, key), strings.ToUpper(key))
	}
	return listOutput[shadowMessageCounts]{items: shown, columns: columns, row: func(r shadowMessageCounts) []any {
		return []any{
			r.Namespace, r.Day, nameWithoutNamespace(c, r.Handler), nameWithoutNamespace(c, r.Route), r.Check, r.Node, countOrEmpty(r.Opened), countOrEmpty(r.Repeated), countOrEmpty(r.Reminded),
			countOrEmpty(r.Closed), r.First.In(c.Zone).Format(format), r.Last.In(c.Zone).Format(format),
		}
	}, notes: []string{cutRowsText(more), fmt.Sprintf("%s would have paged people %s (%d opened, %d of them again; %d repeated); none was sent. --each lists them, -o csv for a spreadsheet",
		model.CountNoun(sum.countPages(), "message"), reportPeriodText(c, l.Since, l.Until), sum.Opened, sum.Repeated, sum.Reminded)}}.print(c)
}

// printShadowMessages prints each notification that a shadow namespace did not send.
func printShadowMessages(c *commandCall, f *shadowReportFlags, items []v1.ShadowMessage) error {
	shown, more := cutRows(f.limit, items)
	return listOutput[v1.ShadowMessage]{
		items: shown, notes: []string{cutRowsText(more)},
		columns: screen.SplitColumns("NAMESPACE|WHEN|HANDLER|TELLS|NODE|CHECK|STATUS|SUMMARY").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(m v1.ShadowMessage) []any {
			status, _ := model.ParseStatus(m.Status)
			return []any{m.Namespace, m.At.In(c.Zone).Format("01-02 15:04:05"), nameWithoutNamespace(c, m.Handler), m.Event, m.Node, m.Check,
				statusCell(status), m.Summary}
		},
	}.print(c)
}

// printShadowCSV writes each notification that a shadow namespace did not send as a CSV row, oldest first.
func printShadowCSV(c *commandCall, items []v1.ShadowMessage) error {
	rows := [][]string{{"at", "handler", "route", "tells", "namespace", "node", "check", "status", "severity", "count", "problem", "opened", "summary"}}
	for _, m := range slices.Backward(items) {
		rows = append(rows, []string{m.At.UTC().Format(time.RFC3339), m.Handler, m.Route, m.Event, m.Namespace, m.Node, m.Check, m.Status, m.Severity, strconv.Itoa(m.Count), m.Problem, m.Opened.UTC().Format(time.RFC3339), m.Summary})
	}
	return writeCSV(c, rows)
}

// escapeFormula quotes a text that a spreadsheet would execute as a formula. A check output with = at its start is an
// example.
func escapeFormula(text string) string {
	if text = screen.CleanLine(text); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
