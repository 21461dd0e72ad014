package sensuimport_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

const withSecrets = `type: Env
api_version: secrets/v1
metadata: {name: env}
spec: {}
---
type: VaultProvider
api_version: secrets/v1
metadata: {name: vault}
spec: {client: {address: "https://vault.example.com:8200", token: s3cr3t, version: v2, max_retries: 2}}
---
type: Secret
api_version: secrets/v1
metadata: {name: db, namespace: default}
spec: {id: "secret/app/db#password", provider: vault}
---
type: Secret
api_version: secrets/v1
metadata: {name: token, namespace: default}
spec: {id: API_TOKEN, provider: env}
---
type: Secret
api_version: secrets/v1
metadata: {name: elsewhere, namespace: default}
spec: {id: x, provider: cyberark}
---
type: CheckConfig
api_version: core/v2
metadata: {name: sql, namespace: default}
spec:
  command: check_sql
  interval: 60
  subscriptions: [db]
  publish: true
  secrets: [{name: DB_PASSWORD, secret: db}, {name: TOKEN, secret: token}, {name: X, secret: elsewhere}]
---
type: Handler
api_version: core/v2
metadata: {name: page, namespace: default}
spec: {type: pipe, command: page, secrets: [{name: KEY, secret: token}, {name: Y, secret: elsewhere}]}
---
type: Mutator
api_version: core/v2
metadata: {name: add, namespace: default}
spec: {type: pipe, command: add, secrets: [{name: KEY, secret: db}, {name: Z, secret: elsewhere}]}
`

func TestSecretsAndProviders(t *testing.T) {
	result, err := sensuimport.Import([]sensuimport.File{{Name: "dump.yaml", Data: []byte(withSecrets)}}, kind.All(), noon)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]model.Spec{}
	for _, r := range result.Resources {
		made[r.Kind+"/"+r.Metadata.Name] = r.Spec
		if err := kind.All().Check(r).Err(); err != nil {
			t.Error(err)
		}
	}
	db, _ := made["Secret/db"].(*model.SecretSpec)
	if want := (model.Vault{Address: "https://vault.example.com:8200", Mount: "secret", Path: "app/db", Key: "password", Engine: "v2", TokenFile: "/etc/muster/vault-token"}); db == nil || db.Vault == nil || *db.Vault != want {
		t.Errorf("got %+v", db)
	}
	if token, _ := made["Secret/token"].(*model.SecretSpec); token == nil || token.Env != "API_TOKEN" {
		t.Errorf("got %+v", token)
	}
	if check, _ := made["Check/sql"].(*model.CheckSpec); check == nil || len(check.Secrets) != 2 || check.Secrets[0] != (model.CommandSecret{Env: "DB_PASSWORD", Secret: "db"}) {
		t.Errorf("got %+v", check)
	}
	if page, _ := made["Handler/page"].(*model.HandlerSpec); page == nil || len(page.Secrets) != 1 || page.Secrets[0] != (model.CommandSecret{Env: "KEY", Secret: "token"}) {
		t.Errorf("got %+v", page)
	}
	if add, _ := made["Mutator/add"].(*model.MutatorSpec); add == nil || len(add.Secrets) != 1 || add.Secrets[0] != (model.CommandSecret{Env: "KEY", Secret: "db"}) {
		t.Errorf("got %+v", add)
	}
	var notes strings.Builder
	for _, n := range result.Notes {
		notes.WriteString(n.What + ": " + n.Text + "\n")
	}
	for _, want := range []string{`provider "cyberark"`, "its token is not carried", "secret elsewhere as X", "secret elsewhere as Y", "secret elsewhere as Z", "trusted: true", "set API_TOKEN"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("no %q in\n%s", want, notes.String())
		}
	}
	if strings.Contains(notes.String(), "s3cr3t") {
		t.Error("the token of Vault is shown")
	}
}
