// Writes the Prometheus rules of a Pyrra ServiceLevelObjective, read from standard input, to standard output.
//
// Pyrra's own command needs its web page, which its Go module does not contain. This one calls the same functions as
// `pyrra generate`: strict decoding, the validation of its webhook, and the rules.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/pyrra-dev/pyrra/kubernetes/api/v1alpha1"
	"github.com/pyrra-dev/pyrra/slo"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var object v1alpha1.ServiceLevelObjective
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return err
	}
	warnings, err := object.ValidateCreate(context.Background(), &object)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintln(os.Stderr, "warning:", warning)
	}
	objective, err := object.Internal()
	if err != nil {
		return err
	}
	increases, err := objective.IncreaseRules(slo.GenerationOptions{})
	if err != nil {
		return err
	}
	burns, err := objective.Burnrates(slo.GenerationOptions{})
	if err != nil {
		return err
	}
	groups := []monitoringv1.RuleGroup{increases, burns}
	generic, err := objective.GenericRules(slo.GenerationOptions{})
	if err == nil {
		groups = append(groups, generic)
	} else if !errors.Is(err, slo.ErrGroupingUnsupported) {
		return err
	}
	rules, err := yaml.Marshal(monitoringv1.PrometheusRuleSpec{Groups: groups})
	if err != nil {
		return err
	}
	_, err = out.Write(rules)
	return err
}
