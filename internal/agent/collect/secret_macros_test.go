package collect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestSecretMacrosAreRedacted collects items with a secret in their keys, and expects no secret in messages to
// the server. The agent asks for the secret at each collection. Other items do not wait for it.
func TestSecretMacrosAreRedacted(t *testing.T) {
	root := testMachine(t)
	testenv.NoError(t, os.MkdirAll(filepath.Join(root, "run"), 0o755))
	for _, secret := range []string{"hunter22", "changed9"} {
		testenv.NoError(t, os.WriteFile(filepath.Join(root, "run", secret), []byte("the password is "+secret+"\n"), 0o600))
	}
	interval := model.Interval("10s")
	definition := &model.TemplateDefinition{
		Definition: model.Definition{ID: 5, Unit: 1000}, Macros: map[string]string{"{$DIR}": "/run"},
		Secrets: []model.DefinitionSecret{{Env: "{$TOKEN}", Name: "default/token"}},
		Items: []model.Item{{Key: "agent.ping", Interval: interval}, {Key: "log[/run/{$TOKEN}]", Type: "log", Interval: interval},
			{Key: "vfs.file.contents[/nosuch/{$TOKEN}]", Type: "text", Interval: interval}, {Key: `vfs.file.contents[{$DIR}/{$TOKEN:"a"}]`, Type: "text", Interval: interval}},
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex // guards the next three
		var got []string
		secret, problem := "hunter22", error(nil)
		w := New(Config{
			Root: root, Boot: func() time.Duration { return time.Since(began) },
			Secrets: func(ctx context.Context, list []model.DefinitionSecret) (map[string]string, error) {
				if len(list) != 1 || list[0].Name != "default/token" {
					t.Errorf("asked for %v", list)
				}
				mu.Lock()
				value, err := secret, problem
				mu.Unlock()
				if value == "" { // the server does not answer
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return map[string]string{"{$TOKEN}": value}, err
			},
			Emit: func(s *wire.Signal, _ *Position) {
				if strings.Contains(string(s.Body), "hunter22") || strings.Contains(string(s.Body), "changed9") {
					t.Errorf("the block has the secret: %q", s.Body)
				}
				var b wire.ValueBlock
				var r wire.ColumnReader
				testenv.NoError(t, b.Decode(s.Body))
				testenv.NoError(t, r.Reset(&b))
				if b.Macros != "" {
					t.Errorf("macros %s", b.Macros)
				}
				var v wire.BlockValue
				for r.Next(&v) {
					text := strings.Clone(v.Value.String())
					if v.Unsupported {
						text = "unsupported: " + text
					}
					mu.Lock()
					got = append(got, text)
					mu.Unlock()
				}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Run(ctx)
		w.Set([]*model.TemplateDefinition{definition}, func(name string) ([]byte, string, bool) {
			return []byte(`"leaked"`), "", strings.HasPrefix(name, "{$TOKEN")
		})
		expect := func(want ...string) {
			t.Helper()
			mu.Lock()
			got = nil
			mu.Unlock()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(got)
			if !slices.EqualFunc(got, want, strings.Contains) {
				t.Errorf("values %q, want parts %q", got, want)
			}
		}
		none := "unsupported: log: the key of a log item must not contain secret macros"
		expect("1", "the password is (hidden)", none, "/nosuch/(hidden)")
		set := func(value string, err error) {
			mu.Lock()
			defer mu.Unlock()
			secret, problem = value, err
		}
		set("changed9", nil)
		expect("1", "the password is (hidden)", none, "/nosuch/(hidden)")
		set("changed9", errors.New("secret default/token is not available: away"))
		expect("1", none, "unsupported: secret default/token is not available: away", "unsupported: secret default/token is not available: away")
		set("", nil)
		time.Sleep(5 * time.Second) // the collection ends after its time-out
		expect("1", none, "no answer in 3s", "no answer in 3s")
	})
}
