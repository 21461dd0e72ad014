package rudder

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/smallstep/pkcs7"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testNode is the id of the node in samples.
const testNode = "0f9a53c1-58c6-4a36-9a2e-6f7f0fd7a001"

// identity is the key and certificate of a test agent.
type identity struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
}

// newIdentity makes a key, and a certificate of a node.
func newIdentity(node string) *identity {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: node}}}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &identity{key, cert}
}

// first and second are identities of the node of samples.
var (
	first  = sync.OnceValue(func() *identity { return newIdentity(testNode) })
	second = sync.OnceValue(func() *identity { return newIdentity(testNode) })
)

// pem returns the certificate in PEM.
func (id *identity) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.cert.Raw}))
}

// signRun returns a log as a clear-signed S/MIME message, like openssl smime -sign -text.
func (id *identity) signRun(log string) []byte {
	part := "Content-Type: text/plain\n\n" + log
	data, err := pkcs7.NewSignedData([]byte(strings.ReplaceAll(part, "\n", "\r\n")))
	if err != nil {
		panic(err)
	}
	data.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := data.AddSigner(id.cert, id.key, pkcs7.SignerInfoConfig{}); err != nil {
		panic(err)
	}
	data.Detach()
	der, err := data.Finish()
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/signed; protocol=\"application/x-pkcs7-signature\"; micalg=\"sha-256\"; boundary=\"--5A\"\n\nThis is an S/MIME signed message\n\n")
	fmt.Fprintf(&b, "----5A\n%s\n----5A\nContent-Type: application/x-pkcs7-signature; name=\"smime.p7s\"\nContent-Transfer-Encoding: base64\n\n", part)
	for chunk := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(der)), 64) {
		b.Write(append(chunk, '\n'))
	}
	b.WriteString("\n----5A--\n\n")
	return []byte(b.String())
}

// signFile returns the signature file of an inventory.
func (id *identity) signFile(data []byte) []byte {
	sum := sha512.Sum512(data)
	digest, err := rsa.SignPKCS1v15(rand.Reader, id.key, crypto.SHA512, sum[:])
	if err != nil {
		panic(err)
	}
	return []byte("header=rudder-signature-v1\nalgorithm=sha512\ndigest=" + hex.EncodeToString(digest) + "\nhostname=web1\n")
}

// sampleInventory returns a test inventory in XML, with a given time and given packages. It has a time, and one more
// package for each name.
func sampleInventory(cert string, made time.Time, packages ...string) []byte {
	var more strings.Builder
	for _, p := range packages {
		fmt.Fprintf(&more, "<SOFTWARES><ARCH>amd64</ARCH><FROM>deb</FROM><NAME>%s</NAME><VERSION>1.0-1</VERSION></SOFTWARES>", p)
	}
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8" ?>
<REQUEST><CONTENT>
<ACCESSLOG><LOGDATE>%s</LOGDATE></ACCESSLOG>
<BIOS><BDATE>01/02/2024</BDATE><SMANUFACTURER>Example Ltd</SMANUFACTURER><SSN>S-1</SSN></BIOS>
<CPUS><CORE>2</CORE><NAME>Example CPU</NAME></CPUS>
<DRIVES><FILESYSTEM>ext4</FILESYSTEM><TOTAL>1000</TOTAL><TYPE>/</TYPE><VOLUMN>/dev/sda1</VOLUMN></DRIVES>
<ENVS><KEY>DB_PASSWORD</KEY><VAL>hunter2</VAL></ENVS><ENVS><KEY>LANG</KEY><VAL>C.UTF-8</VAL></ENVS>
<HARDWARE><MEMORY>2048</MEMORY><VMSYSTEM>Physical</VMSYSTEM></HARDWARE>
<LOCAL_USERS><HOME>/root</HOME><ID>0</ID><LOGIN>root</LOGIN><NAME>root</NAME><SHELL>/bin/bash</SHELL></LOCAL_USERS>
<LOCAL_GROUPS><ID>27</ID><MEMBER>eva</MEMBER><MEMBER>adam</MEMBER><NAME>sudo</NAME></LOCAL_GROUPS>
<NETWORKS><DESCRIPTION>lo</DESCRIPTION><IPADDRESS>127.0.0.1</IPADDRESS><TYPE>loopback</TYPE></NETWORKS>
<NETWORKS><DESCRIPTION>eth0</DESCRIPTION><IPADDRESS>192.0.2.7</IPADDRESS><MACADDR>00:16:3e:00:00:01</MACADDR><STATUS>Up</STATUS></NETWORKS>
<OPERATINGSYSTEM><ARCH>x86_64</ARCH><FULL_NAME>Debian GNU/Linux 12 (bookworm)</FULL_NAME><KERNEL_NAME>linux</KERNEL_NAME><KERNEL_VERSION>6.1.0</KERNEL_VERSION><NAME>Debian</NAME><TIMEZONE><NAME>UTC</NAME><OFFSET>+0000</OFFSET></TIMEZONE><VERSION>12</VERSION></OPERATINGSYSTEM>
<PROCESSES><CMD>/usr/sbin/sshd -D -o Secret=yes</CMD><USER>root</USER></PROCESSES><PROCESSES><CMD>[kthreadd]</CMD><USER>root</USER></PROCESSES>
<RUDDER><AGENT><AGENT_CERT>%s</AGENT_CERT><AGENT_NAME>cfengine-community</AGENT_NAME><POLICY_SERVER_UUID>root</POLICY_SERVER_UUID></AGENT>
<CUSTOM_PROPERTIES>[{"rack":"b7"},{"owner":{"team": "web ops"},"asset":12345678901234567890}]</CUSTOM_PROPERTIES><HOSTNAME>web1.example.com</HOSTNAME><UUID>%s</UUID></RUDDER>
<SOFTWARES><ARCH>amd64</ARCH><FROM>deb</FROM><NAME>rudder-agent</NAME><VERSION>8.1.0-debian12</VERSION></SOFTWARES>%s
<STORAGES><DISKSIZE>21474</DISKSIZE><NAME>sda</NAME></STORAGES>
</CONTENT><DEVICEID>web1</DEVICEID><QUERY>INVENTORY</QUERY></REQUEST>`, made.UTC().Format(time.DateTime), cert, testNode, more.String())
}

// reportLine formats one report about a component as a line of a Rudder run's log.
func reportLine(kind, rule, directive, id, component, value, start, message string) string {
	return fmt.Sprintf("%s R: @@T@@%s@@%s@@%s@@%s@@%s@@%s@@%s##%s@#%s\n", "2026-01-02T03:04:05+00:00", kind, rule, directive, id, component, value, start, testNode, message)
}

// compress returns data compressed with gzip.
func compress(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// TestInventoryHasTheMachine reads the same inventory in XML and in JSON, and expects equal contents.
func TestInventoryHasTheMachine(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	root, err := parseElements(sampleInventory(first().pem(), made))
	testenv.NoError(t, err)
	m, err := readInventory(root)
	testenv.NoError(t, err)
	if m.node != testNode || m.name != "web1.example.com" || !m.logged.Equal(made) || !m.key.Equal(first().key.Public()) || m.key.node != testNode {
		t.Errorf("%+v", m)
	}
	var lines []string
	for _, e := range m.entries {
		lines = append(lines, inventory.SchemaOf(e.Section()).Name+" "+strings.ReplaceAll(string(e[1:]), "\x00", "|"))
	}
	slices.Sort(lines)
	testenv.Golden(t, "testdata/inventory.txt", strings.Join(lines, "\n")+"\n")
	for name, want := range map[string]string{"os": "linux", "distribution": "debian", "arch": "amd64", "memory": "2147483648", "cpus": "2", "addresses": "192.0.2.7",
		"agentVersion": "Rudder agent 8.1.0-debian12", "rudderNode": testNode, "rudderServer": "root", "fqdn": "web1.example.com", "hostname": "web1", "virtualisation": "none"} {
		if m.facts[name] != want {
			t.Errorf("fact %s is %q, want %q", name, m.facts[name], want)
		}
	}
	var toMap func(e *element) any
	toMap = func(e *element) any {
		if len(e.children) == 0 {
			return e.text
		}
		object := map[string]any{}
		for _, c := range e.children {
			name := strings.ToLower(c.name)
			list, _ := object[name].([]any)
			object[name] = append(list, toMap(c))
		}
		return object
	}
	data, err := json.Marshal(toMap(root))
	testenv.NoError(t, err)
	root, err = parseElements(data)
	testenv.NoError(t, err)
	same, err := readInventory(root)
	testenv.NoError(t, err)
	if !slices.Equal(same.entries, m.entries) {
		t.Errorf("in JSON: %q", same.entries)
	}
}

// TestHostNameOfAHookNamesTheNode reads an inventory with a host name from an agent hook, and expects that node
// name. The inventory has the version of the agent in a field of its own.
func TestHostNameOfAHookNamesTheNode(t *testing.T) {
	data := bytes.Replace(sampleInventory(first().pem(), time.Now()), []byte(`"rack":"b7"`), []byte(`"rudder_override_hostname":"web9.example.com"`), 1)
	data = bytes.Replace(data, []byte("<NAME>rudder-agent</NAME>"), []byte("<NAME>other</NAME>"), 1)
	data = bytes.Replace(data, []byte("</HOSTNAME>"), []byte("</HOSTNAME><AGENT_VERSION>8.3.1</AGENT_VERSION>"), 1)
	root, err := parseElements(data)
	testenv.NoError(t, err)
	m, err := readInventory(root)
	testenv.NoError(t, err)
	if m.name != "web9.example.com" || m.facts["hostname"] != "web9" || m.facts["agentVersion"] != "Rudder agent 8.3.1" {
		t.Errorf("name %s, host name %s, version %s", m.name, m.facts["hostname"], m.facts["agentVersion"])
	}
}

// TestOldInventoriesAreRefused expects inventories that are too old, or from the future, to be refused.
func TestOldInventoriesAreRefused(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		made time.Time
		want string
	}{
		{now, ""}, {now.Add(-47 * time.Hour), ""}, {now.Add(-49 * time.Hour), "more than two days ago"}, {now.Add(11 * time.Hour), ""}, {now.Add(13 * time.Hour), "more than 12 hours ahead"}, {time.Time{}, "does not say when"},
	} {
		err := (&machineInventory{logged: c.made}).checkTime(now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("made %s: %v, want %q", c.made, err, c.want)
		}
	}
}

// TestUploadsArePairs uploads inventories and their signatures in many orders, and expects complete pairs. The
// files come too late, from several senders or beyond the size limit.
func TestUploadsArePairs(t *testing.T) {
	now := time.Unix(0, 0)
	x := uploads{most: 100}
	offer := func(from, file string, size int, want string) {
		t.Helper()
		key, isSignature, ok := keyOfUpload(from, file)
		if !ok {
			t.Fatalf("%s is no inventory", file)
		}
		packed, signature, err := x.addFile(key, isSignature, make([]byte, size), now)
		got := fmt.Sprint(len(packed), " ", len(signature))
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s of %s: %s, want %s", file, from, got, want)
		}
		if len(packed) > 0 {
			x.remove(key)
		}
	}
	offer("a", "web1.ocs.gz", 10, "0 0")
	offer("b", "web1.ocs.sign", 5, "0 0")
	offer("a", "web1.ocs.sign", 5, "10 5")
	offer("b", "web1.ocs", 10, "10 5")
	offer("a", "x.json.sign", 5, "0 0")
	now = now.Add(uploadTime + time.Second)
	offer("a", "x.json", 10, "0 0")
	offer("a", "y.xml.gz", 95, "too many inventories wait")
	offer("a", "x.sign", 5, "10 5")
	if x.bytes != 0 || len(x.pairs) != 0 {
		t.Errorf("%d bytes of %d pairs are left", x.bytes, len(x.pairs))
	}
	// A sender that fills the room loses its oldest pair to others, and is refused itself.
	offer("flood", "1.ocs", 40, "0 0")
	now = now.Add(time.Second)
	offer("flood", "2.ocs", 50, "0 0")
	offer("flood", "3.ocs", 20, "too many inventories wait")
	offer("a", "z.ocs", 20, "0 0")
	offer("a", "z.ocs.sign", 5, "20 5")
	offer("flood", "2.ocs.sign", 5, "50 5")
	offer("flood", "1.ocs.sign", 5, "0 0")
	// A sender of very many small files is refused, too, and others are not.
	x = uploads{most: 100, pairs: map[uploadKey]*upload{}}
	for i := range maxPairs {
		x.pairs[uploadKey{"flood", strconv.Itoa(i)}] = &upload{until: now.Add(uploadTime)}
	}
	offer("flood", "x.ocs", 0, "too many inventories wait")
	offer("a", "z.ocs", 20, "0 0")
	offer("a", "z.ocs.sign", 5, "20 5")
	for _, file := range []string{"", "web1", "web1.log.gz", ".ocs", ".sign", strings.Repeat("x", 300) + ".ocs"} {
		if _, _, ok := keyOfUpload("a", file); ok {
			t.Errorf("%q is an inventory", file)
		}
	}
}

// TestHostileFilesAreRefused reads zip bombs, deeply nested XML and other hostile files, and expects errors.
// They are zip bombs, XML with entities, and inventories that do not identify their node.
func TestHostileFilesAreRefused(t *testing.T) {
	if _, err := uncompress(compress(make([]byte, 10<<20)), 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Errorf("gzip: %v", err)
	}
	deep := strings.Repeat("<A>", maxDepth+1)
	cert := first().pem()
	valid := string(sampleInventory(cert, time.Now()))
	for _, c := range []struct{ text, want string }{
		{`<!DOCTYPE a [<!ENTITY b "cccccccc">]><REQUEST>&b;</REQUEST>`, "document type"},
		{`<REQUEST>&b;</REQUEST>`, "invalid character entity"},
		{deep, "32 levels"},
		{strings.Repeat(`{"a":`, maxDepth+1), "32 levels"},
		{"<A>" + strings.Repeat("<B/>", maxElements) + "</A>", "200000 elements"},
		{"<A></B>", "an end tag without"}, {"<A>", "unexpected EOF"}, {"<A/><B/>", "two outermost"}, {"", "unexpected EOF"}, {`{"a":1} {`, "behind its end"},
		{strings.Replace(valid, testNode, "", 1), "no valid id"},
		{strings.Replace(valid, "<UUID>"+testNode, "<UUID>another", 1), "is of node " + testNode},
		{strings.Replace(valid, "<RUDDER><AGENT>", "<RUDDER><AGENT></AGENT><AGENT>", 1), "2 Rudder agents"},
		{strings.Replace(valid, cert, "-----BEGIN RSA PUBLIC KEY-----plop-----END RSA PUBLIC KEY-----", 1), "not in PEM"},
	} {
		root, err := parseElements([]byte(c.text))
		if err == nil {
			_, err = readInventory(root)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestSignaturesAreVerified verifies signed inventories and runs, and expects errors for wrong signatures. The key is
// wrong, the content is changed, or the format is another.
func TestSignaturesAreVerified(t *testing.T) {
	key, err := parseKey(first().pem())
	testenv.NoError(t, err)
	other, err := parseKey(second().pem())
	testenv.NoError(t, err)
	data := sampleInventory(first().pem(), time.Now())
	s, err := parseSignature(first().signFile(data))
	testenv.NoError(t, err)
	if s.verify(key, data) != nil || s.verify(other, data) == nil || s.verify(key, append(data, ' ')) == nil {
		t.Error("the signature of an inventory")
	}
	log := reportLine("control", "rudder", "run", "0", "start", "c1", "2026-01-02 03:04:05+00:00", "Start execution") + "\nüber\n"
	message := first().signRun(log)
	for _, form := range [][]byte{message, bytes.ReplaceAll(message, []byte("\n"), []byte("\r\n"))} {
		r, err := parseSignedRun(form)
		testenv.NoError(t, err)
		if err := r.verify(key); err != nil || strings.TrimRight(string(r.log), "\n") != strings.TrimRight(log, "\n") {
			t.Errorf("%v %q", err, r.log)
		}
		if r.verify(other) == nil {
			t.Error("another key verifies the run")
		}
	}
	r, err := parseSignedRun(bytes.Replace(message, []byte("Start execution"), []byte("Stark execution"), 1))
	testenv.NoError(t, err)
	if r.verify(key) == nil {
		t.Error("a changed run is accepted")
	}
	for _, text := range []string{"", "Content-Type: text/plain\n\nx", strings.Replace(string(message), "MII", "!!!", 1), string(message[:len(message)-10]), strings.Replace(string(message), "MII", "AAA", 1)} {
		if _, err := parseSignedRun([]byte(text)); err == nil {
			t.Errorf("%.40q is accepted", text)
		}
	}
	for _, text := range []string{"header=x\n", "header=rudder-signature-v1\nalgorithm=md5\ndigest=00", "header=rudder-signature-v1\nalgorithm=sha512\ndigest=zz"} {
		if _, err := parseSignature([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestRunIsParsed parses the log of a run with difficult lines, and expects the right reports. The log has messages of
// several lines, lines of the agent itself and damaged reports.
func TestRunIsParsed(t *testing.T) {
	const start = "2026-01-02 03:00:00+00:00"
	log := reportLine("control", "rudder", "run", "0", "start", "c1", start, "Start execution") +
		reportLine("result_success", "r1", "d1", "i1", "Package", "htop", start, "the package\n2026-01-02T03:04:05+00:00 is there") +
		"2026-01-02T03:04:05+00:00    error: Method failed\n2026-01-02T03:04:05+00:00 which goes on\n" +
		reportLine("result_error", "r1", "d1", "i2", "Command", "", start, "it failed:\n2026-01-02T03:04:05+00:00 error: no such host\n2026-01-02T03:04:05+00:00 R:unknown") +
		"2026-01-02T03:04:05+00:00 R: @@T@@\n2026-01-02T03:04:05+00:00 R: [INFO] Executing\n" +
		reportLine("log_info", "r1", "d1", "i1", "Package", "htop", start, "a note") +
		reportLine("audit_noncompliant", "r1", "d1", "0", "None", "a\n2026-01-02T03:04:05+00:00 b", start, "no \xff") +
		reportLine("control", "rudder", "run", "0", "end", "c1", start, "End execution")
	r, err := parseRun([]byte(log))
	testenv.NoError(t, err)
	if r.node != testNode || r.config != "c1" || !r.fullRun || !r.ended || r.invalid != 1 || !r.start.Equal(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)) || len(r.reports) != 3 {
		t.Fatalf("%+v", r)
	}
	if got := r.reports[0]; got.message != "the package\nis there" || got.id != "i1" || got.directive != "d1" || got.value != "htop" {
		t.Errorf("%+v", got)
	}
	if got := r.reports[1]; got.value != "None" || got.message != "it failed:\nerror: no such host" {
		t.Errorf("%+v", got)
	}
	if got := r.reports[2]; got.value != "a\nb" || got.kind != "audit_noncompliant" || got.message != "no \uFFFD" {
		t.Errorf("%+v", got)
	}
	if _, err := parseRun([]byte(log + strings.ReplaceAll(log, testNode, "other"))); err == nil || !strings.Contains(err.Error(), "two nodes") {
		t.Errorf("two nodes: %v", err)
	}
	if _, err := parseRun([]byte("nothing\n")); err == nil {
		t.Error("a log without reports is accepted")
	}
}

// TestRealFilesAreRead reads files that a real Rudder wrote, and compares parsed runs with the results of
// Rudder's relay. The files are inventories, signatures and runs.
func TestRealFilesAreRead(t *testing.T) {
	folder := os.Getenv("MUSTER_RUDDER_DATA")
	if folder == "" {
		testenv.Skip(t, "no folder with inventories and runlogs of Rudder is known", "MUSTER_RUDDER_DATA=FOLDER go test ./internal/source/rudder")
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		testenv.NoError(t, err)
		return data
	}
	for name, want := range map[string]int{"debian12": 400, "raspbian": 500, "ubuntu20_04": 600, "windows2022": 60} {
		data := read(filepath.Join(folder, "inventories", name+".ocs"))
		root, err := parseElements(data)
		testenv.NoError(t, err)
		m, err := readInventory(root)
		if name == "raspbian" { // its certificate was replaced by that of another machine
			if err == nil {
				t.Errorf("%s: a certificate of another node is accepted", name)
			}
			continue
		}
		testenv.NoError(t, err)
		if len(m.entries) < want || m.logged.IsZero() || m.facts["os"] == "" {
			t.Errorf("%s: %d entries of %s, made at %s: %v", name, len(m.entries), m, m.logged, m.facts)
		}
		t.Logf("%s: %d entries of %s, made at %s: %v", name, len(m.entries), m, m.logged, m.facts)
		if name == "debian12" {
			s, err := parseSignature(read(filepath.Join(folder, "inventories", name+".ocs.sign")))
			testenv.NoError(t, err)
			testenv.NoError(t, s.verify(m.key, data))
		}
	}
	logs, err := filepath.Glob(filepath.Join(folder, "runlogs", "*.log"))
	testenv.NoError(t, err)
	for _, name := range logs {
		r, err := parseRun(read(name))
		if err != nil {
			t.Logf("%s: %v", filepath.Base(name), err)
			continue
		}
		expected, err := os.ReadFile(strings.TrimSuffix(name, ".log") + ".json")
		if err != nil {
			continue
		}
		var want struct {
			Info    struct{ Node_id string }
			Config  string `json:"config_id"`
			Reports []struct {
				Rule_id, Directive_id, Component, Key_value, Event_type, Msg, Report_id string
			}
		}
		testenv.NoError(t, json.Unmarshal(expected, &want))
		i := 0
		for _, w := range want.Reports {
			if strings.HasPrefix(w.Event_type, "log_") || w.Event_type == "control" {
				continue
			}
			if i == len(r.reports) {
				t.Fatalf("%s: %d reports", name, i)
			}
			if g := r.reports[i]; g.rule != w.Rule_id || g.directive != w.Directive_id || g.component != w.Component || g.value != w.Key_value || g.kind != w.Event_type || g.message != w.Msg || g.id != w.Report_id {
				t.Errorf("%s: report %d is\n%+v, want\n%+v", name, i, g, w)
			}
			i++
		}
		if i != len(r.reports) || r.node != want.Info.Node_id || r.config != want.Config || !r.fullRun {
			t.Errorf("%s: %d reports of %d, node %s, config %s", name, i, len(r.reports), r.node, r.config)
		}
		t.Logf("%s: %d reports, %d invalid", filepath.Base(name), i, r.invalid)
	}
	signed, err := filepath.Glob(filepath.Join(folder, "runlogs", "*.signed"))
	testenv.NoError(t, err)
	key, err := parseKey(string(read(filepath.Join(folder, "runlogs", "e745a140-40bc-4b86-b6dc-084488fc906b.cert"))))
	testenv.NoError(t, err)
	other, err := parseKey(string(read(filepath.Join(folder, "runlogs", "37817c4d-fbf7-4850-a985-50021f4e8f41.cert"))))
	testenv.NoError(t, err)
	for _, name := range signed {
		r, err := parseSignedRun(read(name))
		testenv.NoError(t, err)
		testenv.NoError(t, r.verify(key))
		if r.verify(other) == nil {
			t.Errorf("%s: another key verifies it", name)
		}
	}
}

// TestChangesLeadToTheInventory applies the messages about random inventory changes, and expects the new inventory.
// They start from the present inventory. Each signal has a bounded size.
func TestChangesLeadToTheInventory(t *testing.T) {
	entries := func(from, to int) (list []inventory.Entry) {
		for i := from; i < to; i++ {
			list = append(list, inventory.New(inventory.Packages, fmt.Sprintf("package-%d", i), strings.Repeat("1", 200)))
		}
		return inventory.Normalize(list)
	}
	present, known := []inventory.Entry(nil), false
	for _, next := range [][]inventory.Entry{entries(0, 2000), entries(0, 2000), entries(10, 2500), entries(2400, 2401), nil} {
		sum := inventory.Sum(present)
		set := map[inventory.Entry]bool{}
		for _, e := range present {
			set[e] = true
		}
		signals := changesOf(present, known, next)
		for i, s := range signals {
			var x wire.Inventory
			testenv.NoError(t, x.Decode(s.Body))
			if x.Complete != (!known && i == 0) || x.Base != sum || len(s.Body) > 2*inventory.MaxSignal {
				t.Errorf("complete %v, base %d of %d, %d bytes", x.Complete, x.Base, sum, len(s.Body))
			}
			for _, e := range x.Removed {
				entry, _ := inventory.ParseEntry(e)
				delete(set, entry)
			}
			for _, e := range x.Added {
				entry, ok := inventory.ParseEntry(e)
				if !ok {
					t.Fatalf("entry %v", e)
				}
				set[entry] = true
			}
			sum = x.Sum
		}
		if len(set) != len(next) || sum != inventory.Sum(next) {
			t.Errorf("%d entries, want %d; %d signals", len(set), len(next), len(signals))
		}
		present, known = next, true
	}
}

// addRealFiles adds files that a real Rudder wrote to the seed inputs of a fuzz test. MUSTER_RUDDER_DATA names their
// folder.
func addRealFiles(f *testing.F, pattern string) {
	names, err := filepath.Glob(filepath.Join(os.Getenv("MUSTER_RUDDER_DATA"), pattern))
	testenv.NoError(f, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		testenv.NoError(f, err)
		f.Add(data)
	}
}

// FuzzParseElements parses random bytes as an inventory, and expects an error or a valid element.
func FuzzParseElements(f *testing.F) {
	addRealFiles(f, "inventories/*.ocs")
	f.Add(sampleInventory("-----BEGIN PUBLIC KEY-----", time.Unix(0, 0)))
	f.Add([]byte(`{"content":{"rudder":{"agent":[{"agent_cert":"x"}],"uuid":"u"},"softwares":[{"name":"a"},{"name":"b"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := parseElements(data)
		if err != nil {
			return
		}
		if m, err := readInventory(root); err == nil && m.node == "" {
			t.Error("an inventory without a node")
		}
	})
}

// FuzzParseRun reads random bytes as a run, and expects an error or a valid run. A valid run has a node and a bounded
// number of reports.
func FuzzParseRun(f *testing.F) {
	addRealFiles(f, "runlogs/*.log")
	f.Add([]byte(reportLine("control", "rudder", "run", "0", "start", "c1", "2026-01-02 03:00:00+00:00", "Start")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRun(data); err == nil && (r.node == "" || len(r.reports) > maxReports) {
			t.Errorf("%+v", r)
		}
	})
}

// FuzzParseSignedRun reads random bytes as a signed run, and expects no valid signature. The key has signed nothing.
func FuzzParseSignedRun(f *testing.F) {
	addRealFiles(f, "runlogs/*.signed")
	f.Add(first().signRun("x"))
	key, err := parseKey(second().pem())
	testenv.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseSignedRun(data); err == nil && r.verify(key) == nil {
			t.Error("accepted")
		}
	})
}

// FuzzParseSignature reads random bytes as the signature of an inventory, and expects none to be valid.
func FuzzParseSignature(f *testing.F) {
	f.Add([]byte("header=rudder-signature-v1\nalgorithm=sha512\ndigest=00ff"))
	key, err := parseKey(first().pem())
	testenv.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseSignature(data); err == nil && s.verify(key, []byte("x")) == nil {
			t.Error("accepted")
		}
	})
}

// FuzzParseKey reads random text as an agent's key, and expects an error or an equal key after encoding. A
// stable key decodes to the same again.
func FuzzParseKey(f *testing.F) {
	f.Add(first().pem())
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseKey(text)
		if err != nil {
			return
		}
		if again, err := keyFromDER(key.der); err != nil || !again.Equal(key.PublicKey) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzUncompress uncompresses random bytes, and expects no result above the size limit.
func FuzzUncompress(f *testing.F) {
	f.Add(compress([]byte("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if plain, err := uncompress(data, 1000); err == nil && len(plain) > max(1000, len(data)) {
			t.Errorf("%d bytes", len(plain))
		}
	})
}
