package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// TestReadShadowLimit reads the newest messages up to a limit, and notes the gap.
func TestReadShadowLimit(t *testing.T) {
	until := time.Unix(1e9, 0)
	for _, c := range []struct{ there, pages, held int }{{0, 1, 0}, {250, 3, 250}, {1000, 10, 1000}, {1001, 10, 1000}, {1e9, 10, 1000}} {
		asked := 0
		list, err := readShadow(v1.ReportQuery{Until: until}, 1000, func(q v1.ReportQuery) (page v1.ShadowList, _ error) {
			if want := fmt.Sprint(asked); asked > 0 && q.After != want || asked == 0 && q.After != "" {
				t.Fatalf("page %d behind %q", asked, q.After)
			}
			page.Until = until
			for i := range min(100, c.there-100*asked) {
				page.Items = append(page.Items, v1.ShadowMessage{At: until.Add(-time.Duration(100*asked+i) * time.Second)})
			}
			if asked++; 100*asked < c.there {
				page.Next = fmt.Sprint(asked)
			}
			return page, nil
		})
		if err != nil || asked != c.pages || len(list.Items) != c.held {
			t.Errorf("%+v: %d pages, %d messages, %v", c, asked, len(list.Items), err)
		}
		short := c.there > c.held
		if (len(list.Notes) > 0) != short || short && !strings.Contains(list.Notes[0], "more than 1000 messages: only those since "+until.Add(-999*time.Second).UTC().Format(time.RFC3339)) {
			t.Errorf("%+v: %q", c, list.Notes)
		}
	}
}
