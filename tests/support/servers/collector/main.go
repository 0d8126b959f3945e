// The receiver of OpenTelemetry's collector: what it gets by OTLP over HTTP it writes to a file, as
// JSON, a request on each line. The rest of the collector would only be compiled.
//
//	otlp-receiver ADDRESS FILE
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	metrics "go.opentelemetry.io/otel/metric/noop"
	tracing "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// A collector's other parts, for its receiver: there are none.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

func main() {
	address, file := os.Args[1], os.Args[2]
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	traces, err := receiverOf(ctx, address, file)
	if err != nil {
		log.Fatal(err)
	}
	if err := traces.Start(ctx, host{}); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	if err := traces.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func receiverOf(ctx context.Context, address, file string) (receiver.Traces, error) {
	otlp := otlpreceiver.NewFactory()
	config := otlp.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"http": map[string]any{"endpoint": address}},
	}).Unmarshal(config); err != nil {
		return nil, err
	}
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	written, err := consumer.NewTraces(func(_ context.Context, spans ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(spans)
		if err == nil {
			_, err = out.Write(append(line, '\n')) // in one piece: requests come side by side
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	logger, err := zap.NewProduction() // to stderr
	if err != nil {
		return nil, err
	}
	settings := receiver.Settings{
		ID: component.NewID(otlp.Type()),
		TelemetrySettings: component.TelemetrySettings{
			Logger:         logger,
			MeterProvider:  metrics.NewMeterProvider(),
			TracerProvider: tracing.NewTracerProvider(),
		},
	}
	return otlp.CreateTraces(ctx, settings, config, written)
}
