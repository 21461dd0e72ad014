// Command schema reads rendered manifests and fails at a kind or field that the Kubernetes API does not have, as an
// API server would. Its module is apart, so that the programs do not depend on Kubernetes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	if err := check(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func check(manifests io.Reader) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(apps.AddToScheme(scheme), core.AddToScheme(scheme)); err != nil {
		return err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for documents := yaml.NewYAMLReader(bufio.NewReader(manifests)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		_, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return fmt.Errorf("%w in\n%s", err, text)
		}
		fmt.Println("valid:", kind)
	}
}
