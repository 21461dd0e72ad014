package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// A real Alertmanager shows the alert while the problem is open, also after its own restart
// once it was told again, and no more when it closed.
func TestRealAlertmanager(t *testing.T) {
	program := testenv.Program(t, "prometheus-alertmanager", "prometheus-alertmanager")
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testenv.Port(t)
	start := func() (stop func()) {
		var said bytes.Buffer
		cmd := exec.Command(program, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--cluster.listen-address=")
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		testenv.Until(t, "Alertmanager is ready", func() bool {
			resp, err := http.Get("http://" + address + "/-/ready")
			if err == nil {
				resp.Body.Close()
			}
			return err == nil && resp.StatusCode == 200
		})
		return func() {
			cmd.Process.Kill()
			<-ended
			if t.Failed() {
				t.Logf("%s", said.String())
			}
		}
	}
	stop := start()
	defer func() { stop() }()

	type shown struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	alerts := func() (list []shown) {
		resp, err := http.Get("http://" + address + "/api/v2/alerts")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		return list
	}

	out := New(Options{})
	defer out.Close()
	// The second of the cluster is away: the first one is enough.
	spec := &model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{"http://" + address, "http://127.0.0.1:1"}}}
	opened, closed := *notifications()[Opened], *notifications()[Closed]
	opened.Opened = time.Now().Add(-time.Minute)
	closed.Opened, closed.Closed = opened.Opened, time.Now()
	closed.Labels = map[string]string{"env": "changed since"}
	if _, err := out.Send(t.Context(), spec, opened.message(t)); err != nil {
		t.Fatal(err)
	}
	list := alerts()
	if len(list) != 1 || list[0].Labels["alertname"] != "disk" || list[0].Labels["env"] != "prod" || list[0].Annotations["problem"] != opened.Problem ||
		!list[0].StartsAt.Equal(opened.Opened.Truncate(time.Millisecond)) || time.Until(list[0].EndsAt) < 50*time.Minute {
		t.Fatalf("%+v", list)
	}

	stop()
	stop = start()
	if list := alerts(); len(list) != 0 {
		t.Fatalf("it remembers: %+v", list)
	}
	if err := out.ResendProblems(t.Context(), spec, []*Notification{&opened}); err != nil {
		t.Fatal(err)
	}
	if list := alerts(); len(list) != 1 {
		t.Fatalf("%+v", list)
	}

	m := closed.message(t)
	m.Opened = func(context.Context) (*Notification, error) { return &opened, nil }
	if _, err := out.Send(t.Context(), spec, m); err != nil {
		t.Fatal(err)
	}
	if list := alerts(); len(list) != 0 {
		t.Fatalf("it did not end: %+v", list)
	}
}
