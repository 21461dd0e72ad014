package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/api/inbound"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/server"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestSlowEnrolmentsBlockNoOtherNetworks sends slow enrolment requests from one network, and expects no delay of
// enrolments from other networks.
func TestSlowEnrolmentsBlockNoOtherNetworks(t *testing.T) {
	r := apitest.NewServer(t)
	bounds, err := queue.ParseSettings([]string{"enrolments=1"})
	testenv.NoError(t, err)
	queues := queue.NewRegistry(bounds)
	authority, err := pki.Open(filepath.Join(t.TempDir(), "pki"), []string{"127.0.0.1"}, nil)
	testenv.NoError(t, err)
	_, agents := api.NewSeparateHandlers(api.Options{Stores: view.Stores{Intent: r.Intent}, Queues: queues, Server: server.Options{NotReady: func() []string { return nil }}, Enrol: &pki.Enroller{
		Authority: authority, Tokens: intent.JoinTokens{Store: r.Intent.Store()}, Registrar: r.Intent, Admit: nodes.NewEnrolmentLimit(queues),
	}})
	listener := httptest.NewServer(agents)
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	address := listener.Listener.Addr().String()

	const slow, may = 40, 32
	refused := make(chan string, slow)
	for range slow {
		conn, err := net.Dial("tcp", address)
		testenv.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", pki.EnrolPath)
		go func() {
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err == nil {
				refused <- string(answer)
			}
		}()
	}
	for range slow - may {
		if status := <-refused; status != "HTTP/1.1 503" {
			t.Fatalf("a request above the limit of its network got %q", status)
		}
	}
	from := func(ip string) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, addr)
			},
		}}
	}
	for ip, want := range map[string]int{"127.0.0.1": http.StatusServiceUnavailable, "127.0.0.2": http.StatusUnprocessableEntity} {
		answer, err := from(ip).Post(listener.URL+pki.EnrolPath, "application/json", strings.NewReader(`{"secret": "AAAA", "csr": "AAAA"}`))
		testenv.NoError(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("from %s: %d, want %d", ip, answer.StatusCode, want)
		}
	}
}

// TestOnlyWrongJoinTokensThrottleANetwork sends wrong and used-up join tokens, and expects only wrong tokens to
// throttle their network. A deleted token counts once. Wrong tokens throttle their network, but not the renewals of
// certificates from it.
func TestOnlyWrongJoinTokensThrottleANetwork(t *testing.T) {
	r := apitest.NewServer(t)
	authority, err := pki.Open(filepath.Join(t.TempDir(), "pki"), []string{"127.0.0.1"}, nil)
	testenv.NoError(t, err)
	tokens := intent.JoinTokens{Store: r.Intent.Store()}
	_, agents := api.NewSeparateHandlers(api.Options{Stores: view.Stores{Intent: r.Intent}, Queues: queue.NewRegistry(nil), Server: server.Options{NotReady: func() []string { return nil }},
		Enrol: &pki.Enroller{Authority: authority, Tokens: tokens, Registrar: r.Intent}})
	listener := httptest.NewServer(agents)
	t.Cleanup(listener.Close)
	address := listener.Listener.Addr().String()
	token, keep, err := authority.NewToken([]string{address}, pki.JoinToken{MaxUses: 1, Uses: 1})
	testenv.NoError(t, err)
	keep.Uses = 1
	testenv.NoError(t, tokens.Create(t.Context(), intent.Actor{User: "ada"}, keep))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	testenv.NoError(t, err)
	tries := func(path string, request func(n int) any) (codes map[int]int) {
		codes = map[int]int{}
		for n := range 40 {
			body, err := json.Marshal(request(n))
			testenv.NoError(t, err)
			answer, err := http.Post(listener.URL+path, "application/json", bytes.NewReader(body))
			testenv.NoError(t, err)
			answer.Body.Close()
			codes[answer.StatusCode]++
		}
		return codes
	}
	shows := func(n int) any { return pki.EnrolRequest{Secret: token.Secret[:], CSR: csr} }
	if codes := tries(pki.EnrolPath, shows); codes[http.StatusUnauthorized] != 40 {
		t.Errorf("statuses for a used-up join token: %v", codes)
	}
	testenv.NoError(t, tokens.Delete(t.Context(), intent.Actor{User: "ada"}, keep.ID))
	if codes := tries(pki.EnrolPath, shows); codes[http.StatusUnauthorized] != 40 {
		t.Errorf("statuses for a deleted join token: %v", codes)
	}
	if codes := tries(pki.EnrolPath, func(n int) any { return pki.EnrolRequest{Secret: fmt.Append(nil, "guess ", n), CSR: csr} }); codes[http.StatusTooManyRequests] < 20 || codes[http.StatusUnauthorized] < 9 {
		t.Errorf("statuses for wrong join tokens: %v", codes)
	}
	if codes := tries(pki.RenewPath, func(int) any { return pki.RenewRequest{Certificate: []byte("none"), CSR: csr} }); codes[http.StatusTooManyRequests] != 0 {
		t.Errorf("statuses for certificate renewals: %v", codes)
	}

	// Right tokens and certificates from the same network are accepted meanwhile.
	send := func(path string, request, answer any) {
		t.Helper()
		body, err := json.Marshal(request)
		testenv.NoError(t, err)
		response, err := http.Post(listener.URL+path, "application/json", bytes.NewReader(body))
		testenv.NoError(t, err)
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s with the right secret: %d, %v", path, response.StatusCode, err)
		}
	}
	token, keep, err = authority.NewToken([]string{address}, pki.JoinToken{Namespace: model.DefaultNamespaceName})
	testenv.NoError(t, err)
	testenv.NoError(t, tokens.Create(t.Context(), intent.Actor{User: "ada"}, keep))
	var enrolled pki.EnrolAnswer
	send(pki.EnrolPath, pki.EnrolRequest{Secret: token.Secret[:], CSR: csr, Name: "web01"}, &enrolled)
	block, _ := pem.Decode(enrolled.Certificate)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.NoError(t, err)
	wrong, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	testenv.NoError(t, err)
	if codes := tries(pki.RenewPath, func(int) any { return pki.RenewRequest{Certificate: block.Bytes, CSR: wrong} }); codes[http.StatusTooManyRequests] < 20 {
		t.Errorf("statuses for renewals without a proof: %v", codes)
	}
	send(pki.RenewPath, pki.RenewRequest{Certificate: block.Bytes, CSR: csr}, new(pki.RenewAnswer))
}

// TestWrongTokensOfAlertsLockNobodyOut sends wrong tokens to the path for alerts, and expects requests with a right
// token to succeed. The network of the wrong tokens must be throttled.
func TestWrongTokensOfAlertsLockNobodyOut(t *testing.T) {
	handler := api.New(api.Options{Queues: queue.NewRegistry(nil), Server: server.Options{NotReady: func() []string { return nil }}, Inbound: inbound.Options{
		Alerts: func(r *http.Request, _ string) error {
			if r.Header.Get("Authorization") != "Bearer right" {
				return model.Errorf(model.Unauthenticated, "wrong")
			}
			return nil
		},
	}})
	codes := map[int]int{}
	for n := range 41 {
		request := httptest.NewRequest("POST", "/alertmanager/api/v2/alerts", strings.NewReader("[]"))
		request.Header.Set("Authorization", map[bool]string{true: "Bearer right", false: "Bearer wrong"}[n == 40])
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		codes[w.Code]++
	}
	if codes[200] != 1 || codes[401] < 9 || codes[429] < 20 {
		t.Errorf("%v", codes)
	}
}

// TestAgentsAreSortedAndFiltered lists agents by version and by their problems, and expects the right order. The
// oldest version and the worst problem come first, also in pages and with filters.
func TestAgentsAreSortedAndFiltered(t *testing.T) {
	r := apitest.NewServer(t)
	c := newTestClient(t, r, r.Token)
	now := r.Now()
	for _, x := range []struct {
		name, version string
		stats         *v1.AgentStats
	}{
		{"fine", "0.10.0", &v1.AgentStats{Runs: 10}},
		{"quiet", "0.10.0", nil},
		{"old", "0.9.1", &v1.AgentStats{}},
		{"spools", "0.10.0", &v1.AgentStats{Spooled: 400, OldestSeconds: 90}},
		{"skips", "0.10.0", &v1.AgentStats{Skipped: 3}},
		{"loses", "0.10.0", &v1.AgentStats{GaveWay: 7}},
	} {
		r.JoinNode(x.name, map[string]string{"agentVersion": "0.1"}) // the version in the session is newer
		r.SetSession(x.name, &v1.AgentSession{Version: x.version, Since: now, Address: "192.0.2.7:4711", Stats: x.stats})
	}
	r.JoinNode("gone", map[string]string{"agentVersion": "0.10.0"})
	r.RecordSession("gone", true, false)
	r.RecordSession("gone", false, false)
	r.JoinNode("stopped", map[string]string{"agentVersion": "0.10.0"})
	r.RecordSession("stopped", true, false)
	r.RecordSession("stopped", false, true)
	r.DeclareNodes("default", nil, "declared") // a node that never had an agent

	ask := func(f v1.AgentFilter) (names []string, list v1.AgentList) {
		t.Helper()
		f.Limit = max(f.Limit, 3)
		for {
			page, err := c.Nodes.Agents(t.Context(), f)
			testenv.NoError(t, err)
			for _, a := range page.Items {
				names = append(names, a.Name)
			}
			if list.Items = append(list.Items, page.Items...); page.Next == "" {
				page.Items = list.Items
				return names, page
			}
			f.After = page.Next
		}
	}
	names, list := ask(v1.AgentFilter{})
	want := []string{"old", "gone", "loses", "spools", "skips", "fine", "quiet", "stopped"}
	if !slices.Equal(names, want) {
		t.Errorf("in order %q, want %q", names, want)
	}
	if fmt.Sprint(list.Versions) != "[{0.9.1 1} {0.10.0 7}]" || list.Total != 8 || list.Disconnected != 1 || list.Spooling != 1 {
		t.Errorf("%+v", list)
	}
	for _, a := range list.Items {
		if trouble := fmt.Sprint(a.Trouble); a.Name == "loses" && trouble != "[7 signals that its spool dropped]" || a.Name == "gone" && trouble != "[not connected]" {
			t.Errorf("%s: %s", a.Name, trouble)
		}
	}
	for _, x := range []struct {
		filter v1.AgentFilter
		want   string
	}{
		{v1.AgentFilter{Version: "0.9"}, "[old]"}, {v1.AgentFilter{Spooling: true}, "[spools]"},
		{v1.AgentFilter{Disconnected: true}, "[gone]"}, {v1.AgentFilter{Namespace: "shared"}, "[]"},
		{v1.AgentFilter{Namespace: "default", Name: "skips"}, "[skips]"}, {v1.AgentFilter{Selector: "agentVersion=0.1,!x", Version: "0.9"}, "[old]"},
	} {
		if names, _ := ask(x.filter); fmt.Sprint(names) != x.want {
			t.Errorf("%+v: %q", x.filter, names)
		}
	}
	assertRefused(t, model.NotFound, "")(c.Nodes.Agents(t.Context(), v1.AgentFilter{Namespace: "nope", Limit: 1}))
	assertRefused(t, model.Invalid, "")(c.Nodes.Agents(t.Context(), v1.AgentFilter{After: "bm9wZQ", Limit: 1}))
}

// TestAgentListOfALargeFleetIsFast requests the first page of 15,000 agents, and expects the answer within a time
// limit.
func TestAgentListOfALargeFleetIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 15,000 nodes")
	}
	r := apitest.NewServer(t)
	names := make([]string, 15_000)
	for i := range names {
		names[i] = fmt.Sprintf("web%05d", i)
	}
	r.DeclareNodes("default", map[string]string{"env": "prod"}, names...)
	for i, name := range names {
		r.SetSession(name, &v1.AgentSession{Version: fmt.Sprintf("0.%d.0", i%7), Address: "192.0.2.1:1", Stats: &v1.AgentStats{Runs: uint64(i)}})
	}
	c := newTestClient(t, r, r.Token)
	best := time.Hour
	for range 5 {
		began := time.Now()
		list, err := c.Nodes.Agents(t.Context(), v1.AgentFilter{Limit: 50})
		if err != nil || list.Total != len(names) || len(list.Items) != 50 {
			t.Fatalf("%d of %d, %v", len(list.Items), list.Total, err)
		}
		best = min(best, time.Since(began))
	}
	t.Logf("a page of 50 of 15,000 agents in %s", best)
	if best > 500*time.Millisecond { // 30 ms on a quiet machine
		t.Errorf("a page took %s", best)
	}
}

// TestEnrolmentGrantsAreValidated expects labels and groups from an enrolment to be validated like labels of an
// applied Node. A join token or a person's acceptance of a machine can give them.
func TestEnrolmentGrantsAreValidated(t *testing.T) {
	r, ctx := apitest.NewServer(t), context.Background()
	c := newTestClient(t, r, r.Token)
	r.Apply("apiVersion: muster/v1\nkind: Namespace\nmetadata: {name: small}\nspec: {limits: {labels: 2}}\n")
	key := strings.Repeat("a", 64)
	if _, err := r.PendingMachines.AddRequest(key, pki.EnrolRequest{Name: "web01", Address: "10.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range 3 {
		many[fmt.Sprint("l", i)] = "x"
	}
	for _, c2 := range []struct {
		namespace string
		groups    []string
		labels    map[string]string
		class     model.Class
		want      string
	}{
		{"", nil, map[string]string{"BAD KEY": "x"}, model.Invalid, `invalid label name "BAD KEY"`},
		{"", nil, map[string]string{"a": "x\ny"}, model.Invalid, "metadata.labels.a"},
		{"", []string{"BAD GROUP"}, nil, model.Invalid, `"BAD GROUP"`},
		{"", []string{"x/y/z"}, nil, model.Invalid, "x/y/z"},
		{"", []string{"other/web"}, nil, model.Invalid, "another namespace"},
		{"small", nil, many, model.Limited, "3 labels, namespace small allows 2"},
	} {
		_, err := c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Namespace: c2.namespace, Groups: c2.groups, Labels: c2.labels})
		if model.ClassOf(err) != c2.class || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("a token: %v, want %q", err, c2.want)
		}
		_, err = c.Enrolment.Accept(ctx, v1.PendingAccept{Machine: "web01", Namespace: c2.namespace, Groups: c2.groups, Labels: c2.labels})
		if model.ClassOf(err) != c2.class || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("accepted: %v, want %q", err, c2.want)
		}
	}
	life := &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(time.Second)}
	assertRefused(t, model.Invalid, "lifecycle.forgetAfter")(c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Lifecycle: life}))
	// A name that would be changed is refused, else the node gets a number behind it.
	r.DeclareNodes("default", nil, "p1")
	for _, name := range []string{"P1", "p 2", "-p3"} {
		assertRefused(t, model.Invalid, "--name p")(c.Enrolment.Accept(ctx, v1.PendingAccept{Machine: "web01", Name: name}))
	}
	assertRefused(t, model.Conflict, "")(c.Enrolment.Accept(ctx, v1.PendingAccept{Machine: "web01", Name: "p1"}))
	if got, err := c.Enrolment.Accept(ctx, v1.PendingAccept{Machine: "web01", Name: "p2", Groups: []string{"web", "shared/x"}, Labels: map[string]string{"a.b/c": "x"}}); err != nil || got.Name != "p2" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTrustedGroupMembersAreKnownBeforePlanning declares nodes of a trusted group, and expects their membership
// before assignments are compiled. Only people may put nodes into a trusted group.
func TestTrustedGroupMembersAreKnownBeforePlanning(t *testing.T) {
	r, ctx := apitest.NewServer(t), context.Background()
	trusted := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "payment"}, Spec: &model.GroupSpec{Trusted: true, Where: `node.labels.role == "payment"`}}
	set := []model.Resource{trusted}
	for i := range 20 {
		set = append(set, model.Resource{Kind: "Node", Metadata: model.Metadata{Name: fmt.Sprint("pay", i), Labels: map[string]string{"role": "payment"}}, Spec: &model.NodeSpec{}})
	}
	set = append(set, model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{}})
	if _, err := r.Intent.Apply(ctx, intent.Actor{User: "admin"}, set, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pay7": "pay7-2", "web01": "web01"} {
		got, err := r.Intent.Register(ctx, name+" key", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: name})
		if err != nil || got.Name != want {
			t.Errorf("%s became %+v, %v", name, got, err)
		}
	}
}
