package sensuimport

import (
	"cmp"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// provider is where Sensu's secrets are. It becomes part of each Secret.
type provider struct {
	env   bool
	vault model.Vault
}

func importProvider(o *object) {
	p := provider{env: o.kind == "Env"}
	if !p.env {
		client := o.spec.object("client")
		p.vault = model.Vault{Address: client.text("address"), Engine: cmp.Or(client.text("version"), "v2"), Namespace: client.text("namespace"),
			TokenFile: "/etc/muster/vault-token", CA: client.object("tls").text("ca_cert")}
		client.value("token")
		client.value("max_retries")
		client.value("timeout")
		client.value("agent_address")
		o.noteChange("its token is not carried: write one into %s, which the server's user may read, or have Vault Agent do that", p.vault.TokenFile)
	}
	o.importer.providers[o.name] = p
}

func importSecret(o *object) {
	id, of := o.spec.text("id"), o.spec.text("provider")
	p, ok := o.importer.providers[of]
	spec := &model.SecretSpec{}
	switch {
	case ok && p.env, !ok && of == "env":
		spec.Env = id
		if strings.HasPrefix(id, "MUSTER_") {
			o.noteLoss("id: variables MUSTER_… are the server's own settings: give it another name")
			return
		}
		o.noteChange("set %s in the environment of the server", id)
	case ok:
		at, key, found := strings.Cut(id, "#")
		mount, path, _ := strings.Cut(strings.Trim(at, "/"), "/")
		if p.vault.Engine == "v2" {
			path = strings.TrimPrefix(path, "data/")
		}
		if !found || path == "" || key == "" {
			o.noteLoss("id %q does not say mount/path#key", id)
			return
		}
		vault := p.vault
		vault.Mount, vault.Path, vault.Key = mount, path, key
		spec.Vault = &vault
	default:
		o.noteLoss("provider %q: a Secret is in the environment, in files or in Vault: muster explain secret", of)
		return
	}
	o.declare(spec)
}

// importCheckSecrets imports the secrets of a check. The server hands their values only to machines of trusted groups, which people
// have to declare.
func importCheckSecrets(o *object, c *model.CheckSpec) {
	c.Secrets = commandSecrets(o, "check")
	if len(c.Secrets) > 0 {
		o.noteChange("secrets: apply takes it only if its groups have trusted: true, so that no machine brings itself in (docs/secrets.md)")
	}
}

// commandSecrets are those in the environment of a command.
func commandSecrets(o *object, what string) (list []model.CommandSecret) {
	for _, secret := range o.spec.objects("secrets") {
		of, as := secret.text("secret"), secret.text("name")
		switch named := model.CleanName(of); {
		case o.find("Secret", named) == nil:
			o.noteLoss("secret %s as %s: there is no such Secret here: declare one, and name it in secrets", of, as)
		case len(list) == model.MaxCheckSecrets:
			o.noteLoss("secret %s as %s: a %s has at most %d", of, as, what, model.MaxCheckSecrets)
		default:
			list = append(list, model.CommandSecret{Env: as, Secret: named})
		}
	}
	return list
}
