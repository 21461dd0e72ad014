package intent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// visitStored calls a function for each stored resource of a kind whose JSON contains a given text. The text is
// mark. It skips resources that the apply itself changes.
func (p *proposal) visitStored(ctx context.Context, kind, mark string, review func(*model.Resource) error) error {
	for row, err := range p.repo.rows(ctx, ListQuery{Kind: kind}) {
		if err != nil {
			return err
		}
		if p.applied[row.Key] != nil || !bytes.Contains(row.Body, []byte(mark)) {
			continue
		}
		r, err := p.repo.decode(row)
		if err == nil {
			err = review(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseSecretsForOpenGroups returns an error for each resource that sends server secrets to a group open to any
// machine. Any machine can join an open group. The resources are checks, Templates and policies. The function covers
// the applied ones and, where the apply loosens a Group or Secret, the stored ones.
func (p *proposal) refuseSecretsForOpenGroups(ctx context.Context) (problems []error, err error) {
	review := func(r *model.Resource) error {
		err := p.checkSecretTargets(ctx, r)
		if model.ClassOf(err) == model.Invalid {
			problems, err = append(problems, err), nil
		}
		return err
	}
	for key, r := range p.applied {
		if sendsSecrets(key.Kind) {
			if err := review(r); err != nil {
				return nil, err
			}
		}
	}
	loosened, err := p.loosensSecretAccess(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range secretSenders {
		if loosened {
			if err = p.visitStored(ctx, kind, secretsMark, review); err != nil {
				return nil, err
			}
		}
	}
	ofPolicies, err := p.refusePolicySecrets(ctx, loosened)
	return append(problems, ofPolicies...), err
}

// loosensSecretAccess reports whether the applied Groups and Secrets may let the server send a secret to more machines.
// They may if a Group becomes open that was trusted or did not exist, or if the server may now send the value of a
// Secret. Any other change of Groups and Secrets leaves the stored resources as valid as they are.
func (p *proposal) loosensSecretAccess(ctx context.Context) (bool, error) {
	for key, r := range p.applied {
		group, isGroup := r.Spec.(*model.GroupSpec)
		secret, isSecret := r.Spec.(*model.SecretSpec)
		if !(isGroup && !group.Trusted || isSecret && secret.OnServer()) {
			continue
		}
		row, err := p.storedRow(ctx, key)
		if err != nil {
			return false, err
		}
		if row == nil {
			return true, nil // stored resources may name it: it may have been deleted
		}
		stored, err := p.repo.decode(*row)
		if err != nil {
			return false, err
		}
		if was, ok := stored.Spec.(*model.GroupSpec); ok && was.Trusted {
			return true, nil
		}
		if was, ok := stored.Spec.(*model.SecretSpec); ok && !was.OnServer() {
			return true, nil
		}
	}
	return false, nil
}

// refusePolicySecrets returns an error for each policy that would give server secrets to untrusted nodes. The secrets
// belong to the policy's directives, and the nodes are outside of trusted groups. Few techniques have secrets, so it
// begins with these. loosened means that the apply loosens a Group or Secret.
func (p *proposal) refusePolicySecrets(ctx context.Context, loosened bool) (problems []error, err error) {
	touched := loosened
	for key := range p.applied {
		touched = touched || slices.Contains([]string{"Policy", "Directive", "Technique"}, key.Kind)
	}
	if !touched {
		return nil, nil
	}
	each := func(kind, mark string, visit func(*model.Resource) error) error {
		for key, r := range p.applied {
			if key.Kind == kind {
				if err := visit(r); err != nil {
					return err
				}
			}
		}
		return p.visitStored(ctx, kind, mark, visit)
	}
	techniques := map[Key]*model.TechniqueSpec{}
	err = each("Technique", `"`+model.SecretParameter+`"`, func(r *model.Resource) error {
		spec := r.Spec.(*model.TechniqueSpec)
		if slices.ContainsFunc(spec.Parameters, func(p model.Parameter) bool { return p.Type == model.SecretParameter }) {
			techniques[KeyOf(r)] = spec
		}
		return nil
	})
	if err != nil || len(techniques) == 0 {
		return nil, err
	}
	secrets := map[Key]string{} // by directive
	err = each("Directive", `"technique"`, func(r *model.Resource) error {
		key, spec := KeyOf(r), r.Spec.(*model.DirectiveSpec)
		of := referenceKey("Technique", key.Namespace, spec.Technique)
		if techniques[of] == nil || spec.Disabled {
			return nil
		}
		secret, err := p.firstDirectiveSecret(ctx, key, spec, of, techniques[of])
		if secret != "" {
			secrets[key] = secret
		}
		return err
	})
	if err != nil || len(secrets) == 0 {
		return nil, err
	}
	err = each("Policy", `"directives"`, func(r *model.Resource) error {
		key, spec := KeyOf(r), r.Spec.(*model.PolicySpec)
		for _, name := range spec.Directives {
			secret := secrets[referenceKey("Directive", key.Namespace, name)]
			if secret == "" || spec.Disabled {
				continue
			}
			err := p.checkTrustedTargets(ctx, key, spec.Kind(), spec.Targets, secret)
			if model.ClassOf(err) == model.Invalid {
				problems, err = append(problems, err), nil
			}
			return err
		}
		return nil
	})
	return problems, err
}

// secretSenders lists the kinds of resources with secrets for nodes.
var secretSenders = [...]string{"Check", "Template"}

// sendsSecrets reports whether resources of a kind can send the server's secrets to nodes.
func sendsSecrets(kind string) bool { return slices.Contains(secretSenders[:], kind) }

// firstDirectiveSecret returns the first secret of a directive whose value is stored on the server. The server sends
// the value to nodes. The text is empty if the directive has no such secret.
func (p *proposal) firstDirectiveSecret(ctx context.Context, key Key, spec *model.DirectiveSpec, of Key, technique *model.TechniqueSpec) (string, error) {
	for i := range technique.Parameters {
		parameter := &technique.Parameters[i]
		value, own := spec.Parameters[parameter.Name]
		ns := key.Namespace
		if !own && parameter.Default != nil {
			ns, value = of.Namespace, *parameter.Default
		}
		if parameter.Type != model.SecretParameter || value.Text == "" {
			continue
		}
		secret, err := specAfterApply[model.SecretSpec](ctx, p, referenceKey("Secret", ns, string(value.Text)))
		if err != nil {
			return "", err
		}
		if secret != nil && secret.OnServer() {
			return string(value.Text), nil
		}
	}
	return "", nil
}

// secretsMark is a text in the JSON of every check or Template with secrets.
const secretsMark = `"secrets"`

// mayHaveSecrets reports whether the JSON of a stored check or Template may contain references to secrets
func mayHaveSecrets(row Row) bool { return bytes.Contains(row.Body, []byte(secretsMark)) }

// checkSecretTargets refuses a check or Template that sends server secrets to a group open to any machine. Machines
// can join an open group by themselves. A disabled one is sent to no node.
func (p *proposal) checkSecretTargets(ctx context.Context, r *model.Resource) error {
	key := KeyOf(r)
	targets, names := sentSecrets(r.Spec)
	secret, err := p.firstServerSecret(ctx, key.Namespace, names)
	if err != nil || secret == "" {
		return err
	}
	return p.checkTrustedTargets(ctx, key, r.Kind, targets, secret)
}

// checkTrustedTargets refuses targets with groups that a machine may join by itself, because targets receive
// secrets. The resource gives a secret of the server to its nodes.
func (p *proposal) checkTrustedTargets(ctx context.Context, key Key, kind string, targets *model.Targets, secret string) error {
	what := strings.ToLower(kind)
	for t, at := targets, "targets"; t != nil; t, at = t.Except, at+".except" {
		refuse := func(hint, format string, args ...any) error {
			return model.Errorf(model.Invalid, "%s: %s: the %s gives the secret %s to nodes, but %s", key, at, what, secret, fmt.Sprintf(format, args...)).WithHint("%s", hint)
		}
		if t.Where != "" {
			return refuse("move the condition to a group with trusted: true, and name the group in this "+what, "a condition of the %s reads facts that machines report", what)
		}
		if kind == "Policy" && len(t.Nodes) > 0 {
			return refuse("name a group with trusted: true, which may list nodes", "the names of nodes in a policy are not reserved: another machine could take one")
		}
		for _, name := range t.Groups {
			found, err := specAfterApply[model.GroupSpec](ctx, p, referenceKey("Group", key.Namespace, name))
			switch {
			case err != nil:
				return err
			case found == nil:
				return refuse("apply the group first, or in the same file, with trusted: true", "group %s does not exist", name)
			case !found.Trusted:
				return refuse("set trusted: true in the group, or name a trusted group; a Secret with agentFile or agentEnv needs no trusted group", "group %s is not trusted: machines can join it by themselves", name)
			}
		}
		missing, err := p.missingNodes(ctx, key.Namespace, t.Nodes)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return refuse("let the machine join, check the machine, then name its node; or create the join token with a trusted group: muster node token --groups GROUP", "%s: the first machine with that name would get it", missing[0])
		}
	}
	return nil
}

// sentSecrets returns the secrets that a check or Template sends, and the targets. A disabled check or Template gives
// none.
func sentSecrets(spec model.Spec) (targets *model.Targets, names []string) {
	disabled := false
	switch of := spec.(type) {
	case *model.CheckSpec:
		targets, disabled = of.Targets, of.Disabled
		for i := range of.Secrets {
			names = append(names, of.Secrets[i].Secret)
		}
	case *model.TemplateSpec:
		targets, disabled = of.Targets, of.Disabled
		for i := range of.Secrets {
			names = append(names, of.Secrets[i].Secret)
		}
	}
	if disabled || targets == nil {
		return nil, nil
	}
	return targets, names
}

// firstServerSecret returns the first of several secrets whose value is stored on the server. The server sends such a
// value to nodes. The text is empty if all values are on agents.
func (p *proposal) firstServerSecret(ctx context.Context, namespace string, names []string) (string, error) {
	for _, name := range names {
		spec, err := specAfterApply[model.SecretSpec](ctx, p, referenceKey("Secret", namespace, name))
		if err != nil {
			return "", err
		}
		if spec != nil && spec.OnServer() {
			return name, nil
		}
	}
	return "", nil
}

// checkServerSecrets refuses handlers and mutators with a secret that only nodes can read, not the server. The
// function covers the applied ones and, where such a Secret is applied, the stored ones.
func (p *proposal) checkServerSecrets(ctx context.Context) (problems []error, err error) {
	review := func(r *model.Resource) error {
		key := KeyOf(r)
		k, _ := p.repo.opts.Kinds.Lookup(key.Kind)
		for _, secret := range model.NamedSecrets(r.Spec) {
			spec, err := specAfterApply[model.SecretSpec](ctx, p, referenceKey("Secret", key.Namespace, secret.Ref))
			if err != nil {
				return err
			}
			if spec != nil && !spec.OnServer() {
				problems = append(problems, model.Errorf(model.Invalid, "%s: %s: the value of secret %s is in %s, but %s run on the server", key, secret.Field, secret.Ref, spec.Location(), k.Plural).
					WithHint("name a Secret whose value the server can read: file, env or vault"))
			}
		}
		return nil
	}
	stored := false
	for _, r := range p.applied {
		switch spec := r.Spec.(type) {
		case *model.HandlerSpec, *model.MutatorSpec:
			if err := review(r); err != nil {
				return nil, err
			}
		case *model.SecretSpec:
			stored = stored || !spec.OnServer()
		}
	}
	for _, kind := range [...]string{"Handler", "Mutator"} {
		if stored && err == nil {
			err = p.visitStored(ctx, kind, `"secret"`, review)
		}
	}
	return problems, err
}

// checkTrust returns an error if a trusted group contains another group that is not trusted. Package where
// checks the group's own condition.
func (p *proposal) checkTrust(ctx context.Context, r *model.Resource) error {
	spec, ok := r.Spec.(*model.GroupSpec)
	if !ok {
		return nil
	}
	key := KeyOf(r)
	if !spec.Trusted {
		return p.checkContainingGroups(ctx, key)
	}
	for _, name := range spec.Groups {
		inside, err := specAfterApply[model.GroupSpec](ctx, p, referenceKey("Group", key.Namespace, name))
		if err != nil {
			return err
		}
		why := "which is not trusted: machines can join it by themselves"
		if inside == nil {
			why = "which does not exist"
		} else if inside.Trusted {
			continue
		}
		return model.Errorf(model.Invalid, "%s is a trusted group and cannot contain group %s, %s", key, name, why).
			WithHint("set trusted: true in group %s in the same apply, or remove it from spec.groups", name)
	}
	return p.checkListedNodes(ctx, key, spec)
}

// checkContainingGroups refuses to remove the trust of a group inside another trusted group.
func (p *proposal) checkContainingGroups(ctx context.Context, key Key) error {
	before, err := specAfterApply[model.GroupSpec](ctx, newProposal(p.repo, nil, nil), key)
	if err != nil || before == nil || !before.Trusted {
		return err
	}
	for row, err := range p.repo.rows(ctx, ListQuery{Kind: "Group"}) {
		if err != nil {
			return err
		}
		around, err := specAfterApply[model.GroupSpec](ctx, p, row.Key)
		if err != nil || around == nil || !around.Trusted {
			continue // an apply of this unreadable group is refused anyway
		}
		for _, name := range around.Groups {
			if referenceKey("Group", row.Namespace, name) == key {
				return model.Errorf(model.Invalid, "%s must stay a trusted group, because %s contains it and is trusted", key, row.Key).
					WithHint("remove this group from the groups of %s first: muster edit group %s -n %s", row.Name, row.Name, row.Namespace)
			}
		}
	}
	return nil
}

// checkListedNodes returns an error if a trusted group lists a node that does not exist. Any machine could take the
// node's name.
func (p *proposal) checkListedNodes(ctx context.Context, key Key, spec *model.GroupSpec) error {
	for _, name := range spec.Nodes { // one call for each name, because maxNodeLookups bounds one call
		missing, err := p.missingNodes(ctx, key.Namespace, []string{name})
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return model.Errorf(model.Invalid, "%s is a trusted group, but %s: the first machine with that name would become a member", key, missing[0]).
				WithHint("let the machine join, check the machine, then list its node; or let it join with a token that names the group: muster node token --groups %s", key.Name)
		}
	}
	return nil
}
