package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/promapi"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestEveryListTakesACondition expects every list operation of the API to accept a CEL condition. A list whose rows
// have labels or belong to nodes must accept a label selector, too.
func TestEveryListTakesACondition(t *testing.T) {
	r := apitest.NewServer(t)
	_, _, page := sendRequest(t, r, "GET", "/api/v1/openapi.json", r.Token, "", nil)
	var doc struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name string }
		}
	}
	testenv.NoError(t, json.Unmarshal([]byte(page), &doc))
	unlabelled := []string{"listKinds", "listQueues", "listUsers", "listTokens", "listTombstones", "listRollouts", "listReviewRequests", "listChanges", "listDeadLetters", "listDeliveries"}
	lists := 0
	for path, ways := range doc.Paths {
		op, ok := ways["get"]
		if !ok || !strings.HasPrefix(op.ID, "list") || strings.HasPrefix(path, promapi.Prefix) || op.ID == "listKinds" { // kinds are fixed in the program and few
			continue
		}
		lists++
		for _, want := range []string{"where", "selector"} {
			has := false
			for _, p := range op.Parameters {
				has = has || p.Name == want
			}
			if !has && (want == "where" || !slices.Contains(unlabelled, op.ID)) {
				t.Errorf("%s (%s) takes no %s", op.ID, path, want)
			}
		}
	}
	if lists < 20 {
		t.Errorf("only %d lists", lists)
	}
}

// newServerWithAllLists returns a server that has rows in every list of the API.
func newServerWithAllLists(t *testing.T) *apitest.Server {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	r.DeclareNodes("default", map[string]string{"env": "test"}, "db01")
	r.JoinNode("web03", map[string]string{"agentVersion": "1.2.0"})
	r.Apply(fleetYAML)
	r.Apply("kind: Handler\nmetadata: {name: pager}\nspec: {command: 'true'}\n")
	var b history.Batch
	check, _ := r.Directory.CheckByName("default", "disk")
	for i, name := range []string{"web01", "web02", "db01", "gone01"} {
		id, ok := r.Directory.NodeByName("default", name)
		if !ok {
			id = 4000
		}
		p := history.Problem{Namespace: "default", Node: name, SourceName: "disk", Problem: model.Problem{
			ID: "P" + name, NodeID: id, Source: model.CheckSource(check), Status: model.Critical, Severity: model.Severity(i + 1), Opened: r.Now().Add(-time.Duration(i+1) * time.Hour), Output: "full on " + name}}
		b.Opened = append(b.Opened, p)
		b.Entries = append(b.Entries, history.Entry{At: p.Opened, Kind: history.StatusChanged, Namespace: "default", Node: name, NodeID: id, SourceName: "disk", Source: model.CheckSource(check), Status: model.Critical, Output: p.Output})
		b.Deliveries = append(b.Deliveries, history.Delivery{Key: name, Problem: p.ID, Handler: history.HandlerRef{Namespace: "default", Name: "pager"}, Kind: "opened", Payload: []byte("{}"), Created: p.Opened})
	}
	testenv.NoError(t, r.History.Record(t.Context(), b))
	list, err := r.History.Deliveries(t.Context(), "Pdb01")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	testenv.NoError(t, r.History.RecordAttempts(t.Context(), history.DeliveryAttempt{ID: list[0].ID, Attempt: history.Attempt{At: r.Now(), State: history.Dead, Error: "pager answered 401"}}))
	if _, err := r.Access.CreateUser(t.Context(), intent.Actor{User: "admin"}, access.User{Name: "ann", Grants: access.Grants{Role: access.Viewer}}, "four plain test words"); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestListsFilterByLabelsAndConditions filters lists by label selectors and conditions, and compares the selected rows.
func TestListsFilterByLabelsAndConditions(t *testing.T) {
	r := newServerWithAllLists(t)
	c := newTestClient(t, r, r.Token)
	nodesOf := func(list v1.ProblemList, err error) string {
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, p := range list.Items {
			names = append(names, p.Node)
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct {
		narrow v1.RowFilter
		want   string
	}{
		{v1.RowFilter{}, "web01 web02 db01 gone01"},
		{v1.RowFilter{Selector: "env=prod"}, "web01 web02"},
		{v1.RowFilter{Selector: "env!=prod"}, "db01"}, // labels of deleted nodes are unknown, so their rows do not match
		{v1.RowFilter{Where: `row.severity >= 3`}, "db01 gone01"},
		{v1.RowFilter{Where: `row.status == CRITICAL && row.output.contains("web02")`}, "web02"},
		{v1.RowFilter{Where: `node.labels.env == "test"`}, "db01"},
		{v1.RowFilter{Where: `node.name.startsWith("web")`, Selector: "env"}, "web01 web02"},
		{v1.RowFilter{Where: `now - timestamp(row.opened) > duration("150m")`}, "db01 gone01"},
		{v1.RowFilter{Where: `row.nothing == 1`}, ""},
		{v1.RowFilter{Where: `has(row.closed)`}, ""},
	} {
		if got := nodesOf(c.Problems.List(t.Context(), "default", "", "", false, 100, "", test.narrow)); got != test.want {
			t.Errorf("%+v: %q, want %q", test.narrow, got, test.want)
		}
	}
	// Pages of one row continue behind the last row, also where rows in between do not match.
	var paged []string
	for after := ""; ; {
		page, err := c.Problems.List(t.Context(), "default", "", "", false, 1, after, v1.RowFilter{Where: `row.node != "web02"`})
		testenv.NoError(t, err)
		for _, p := range page.Items {
			paged = append(paged, p.Node)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if got := strings.Join(paged, " "); got != "web01 db01 gone01" {
		t.Errorf("pages of one: %s", got)
	}
	for _, test := range []struct{ path, where, selector, want string }{
		{"/api/v1/history", `row.check == "disk" && row.statusName == "CRITICAL" && node.labels.env == "prod"`, "", `"node":"web01"|"node":"web02"`},
		{"/api/v1/history", "", "env=test", `"node":"db01"`},
		{"/api/v1/events/default/db01/disk/history", `row.output.contains("full")`, "", `"full on db01"`},
		{"/api/v1/agents", `has(row.version) && node.facts.agentVersion == "1.2.0"`, "", `"name":"web03"`},
		{"/api/v1/agents", `row.name == "web03"`, "!env", `"name":"web03"`},
		{"/api/v1/problems/Pdb01/deliveries", `row.state == "dead"`, "", `"state":"dead"`},
		{"/api/v1/problems/Pdb01/deliveries", `row.state == "pending"`, "", ""},
		{"/api/v1/handlers/default/pager/dead", `row.lastError.contains("401")`, "", `"problem":"Pdb01"`},
		{"/api/v1/handlers/default/pager/dead", `row.attempts > 7`, "", ""},
		{"/api/v1/users", `row.role == "viewer"`, "", `"name":"ann"`},
		{"/api/v1/tokens", `row.role == "nobody"`, "", ""},
		{"/api/v1/queues", `row.capacity > 0 && row.name == "requests"`, "", `"name":"requests"`},
		{"/api/v1/changes", `row.kind == "Handler"`, "", `"name":"pager"`},
		{"/api/v1/tombstones", `row.by == "ann"`, "", ""},
		{"/api/v1/availability", `row.node == "nobody"`, "", ""},
		{"/api/v1/reports/shadow", `row.severity == "high"`, "", ""},
		{"/api/v1/jointokens", `row.uses > 0`, "env=prod", ""},
		{"/api/v1/pending", `row.name == "x"`, "env=prod", ""},
		{"/api/v1/silences", `spec.creator == "ann"`, "", ""},
	} {
		query := url.Values{}
		if test.where != "" {
			query.Set("where", test.where)
		}
		if test.selector != "" {
			query.Set("selector", test.selector)
		}
		status, _, text := sendRequest(t, r, "GET", test.path+"?"+query.Encode(), r.Token, "", nil)
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 {
			t.Errorf("%s %v: %d %v %s", test.path, query, status, err, text)
			continue
		}
		want := strings.Split(test.want, "|")
		if test.want == "" {
			want = nil
		}
		if len(list.Items) != len(want) {
			t.Errorf("%s %v: %d rows, want %d: %s", test.path, query, len(list.Items), len(want), text)
			continue
		}
		for i := range want {
			if !strings.Contains(string(list.Items[i]), want[i]) {
				t.Errorf("%s %v: %s, want %s", test.path, query, list.Items[i], want[i])
			}
		}
	}
	for _, test := range []struct{ path, query, says string }{
		{"/api/v1/problems", "where=row.node+%3D%3D", "column"},
		{"/api/v1/problems", "where=event.status+%3D%3D+1", "a condition reads row"},
		{"/api/v1/users", "where=node.name+%3D%3D+%22a%22", "a condition reads row"},
		{"/api/v1/history", "selector=%3D%3D", "cannot parse"},
		{"/api/v1/users", "selector=a%3Db", "selector"},
	} {
		if status, _, text := sendRequest(t, r, "GET", test.path+"?"+test.query, r.Token, "", nil); status < 400 || status > 499 || !strings.Contains(text, test.says) {
			t.Errorf("%s?%s: %d %s", test.path, test.query, status, text)
		}
	}
}

// TestConditionsReadOnlyVisibleState sends CEL conditions about a secret as a viewer, and expects no hint of its
// value.
func TestConditionsReadOnlyVisibleState(t *testing.T) {
	r := apitest.NewServer(t)
	r.Apply("kind: Handler\nmetadata: {name: hook}\nspec: {command: call, env: {KEY: hunter22}}\n---\nkind: Handler\nmetadata: {name: pager}\nspec: {pagerduty: {routingKey: hunter33}}\n")
	viewer, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "admin"}, access.AccessToken{User: "admin", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	for _, test := range []struct {
		where         string
		admin, viewer int
	}{
		{`spec.command == "call"`, 1, 1},
		{`spec.env.KEY.startsWith("hunter")`, 1, 0},
		{`spec.pagerduty.routingKey.startsWith("hunter")`, 1, 0},
	} {
		for token, want := range map[string]int{r.Token: test.admin, viewer: test.viewer} {
			_, _, text := sendRequest(t, r, "GET", "/api/v1/handlers?"+url.Values{"where": {test.where}}.Encode(), token, "", nil)
			var list struct{ Items []json.RawMessage }
			if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Items) != want {
				t.Errorf("%s (viewer %v): %d, want %d: %s", test.where, token == viewer, len(list.Items), want, text)
			}
		}
	}
}

// TestConditionSearchShowsEachRowOnce searches with a CEL condition and expects each matching row exactly once, for
// every page size
func TestConditionSearchShowsEachRowOnce(t *testing.T) {
	r := apitest.NewServer(t)
	var b history.Batch
	var want []string
	for i := range 1303 {
		p := history.Problem{Namespace: "default", Node: "web01", SourceName: "disk", Problem: model.Problem{
			ID: fmt.Sprintf("P%04d", i), NodeID: 1, Status: model.Critical, Opened: r.Now().Add(-time.Duration(i/3) * time.Second), Output: fmt.Sprint("full ", i%100)}}
		if i%100 == 7 || i%100 == 8 {
			want = append(want, p.ID)
		}
		b.Opened = append(b.Opened, p)
	}
	testenv.NoError(t, r.History.Record(t.Context(), b))
	slices.Sort(want)
	c := newTestClient(t, r, r.Token)
	for _, limit := range []int{1, 2, 3, 13, 26, 27, 1000} {
		var got []string
		for after := ""; ; {
			page, err := c.Problems.List(t.Context(), "default", "", "", false, limit, after, v1.RowFilter{Where: `row.output in ["full 7", "full 8"]`})
			if err != nil || len(page.Items) > limit {
				t.Fatal(len(page.Items), err)
			}
			for _, p := range page.Items {
				got = append(got, p.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %d rows, want %d: %v", limit, len(got), len(want), got)
		}
	}
}
