import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A consumer of orders on Kafka's own client, as its documentation shows one: poll, process, send.
 *
 * <p>It prices each order and sends the result to an output topic with the headers that came. Offsets
 * are committed automatically: those of a poll by a later poll. SIGTERM wakes the loop up; then what is
 * buffered is delivered, and closing the consumer leaves the group.
 *
 * <p>Three variables change that: PARTITION_ASSIGNMENT_STRATEGY names assignors other than the client's
 * own, with COMMIT_ON_REVOKE what is done is committed before partitions leave, and GROUP_PROTOCOL
 * "consumer" is KIP-848, where the broker assigns.
 */
public final class OrderPrices {
  private static final long MESSAGE_COST_MILLIS = 4;
  private static final ObjectMapper JSON = new ObjectMapper();

  private OrderPrices() {}

  public static void main(String[] arguments) {
    var consumer =
        new KafkaConsumer<>(
            groupSettings(),
            new ByteArrayDeserializer(),
            new ByteArrayDeserializer());
    var producer =
        new KafkaProducer<>(settings(), new ByteArraySerializer(), new ByteArraySerializer());
    wakeUpAtTheEnd(consumer);
    try (consumer; producer) {
      var topics = List.of(env("ORDERS_TOPIC"));
      if (System.getenv("COMMIT_ON_REVOKE") == null) {
        consumer.subscribe(topics);
      } else {
        consumer.subscribe(topics, committing(consumer, producer));
      }
      while (true) {
        for (var order : consumer.poll(Duration.ofMillis(500))) {
          producer.send(priced(order), (sent, error) -> report(error));
        }
      }
    } catch (WakeupException ended) {
      System.err.println("stopped");
    }
  }

  /** Returns the order's total, after what stands for a look-up elsewhere. */
  private static ProducerRecord<byte[], byte[]> priced(ConsumerRecord<byte[], byte[]> in) {
    ObjectNode price = JSON.createObjectNode();
    try {
      JsonNode order = JSON.readTree(in.value());
      Thread.sleep(MESSAGE_COST_MILLIS);
      price.set("order", order.get("order"));
      price.set("total", order.get("total_cents"));
      var out =
          new ProducerRecord<>(
              env("PRICES_TOPIC"), null, in.key(), JSON.writeValueAsBytes(price));
      in.headers().forEach(out.headers()::add);
      return out;
    } catch (IOException | InterruptedException error) {
      throw new IllegalStateException("order at offset " + in.offset(), error);
    }
  }

  /** Delivers and commits what is done before another member continues behind it. */
  private static ConsumerRebalanceListener committing(
      KafkaConsumer<?, ?> consumer, KafkaProducer<?, ?> producer) {
    return new ConsumerRebalanceListener() {
      @Override
      public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        producer.flush();
        consumer.commitSync();
      }

      @Override
      public void onPartitionsLost(Collection<TopicPartition> partitions) {
        // They are another member's already, or the group is in a rebalance: no commit is accepted.
      }

      @Override
      public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    };
  }

  private static void wakeUpAtTheEnd(KafkaConsumer<?, ?> consumer) {
    var loop = Thread.currentThread();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  consumer.wakeup();
                  try {
                    loop.join();
                  } catch (InterruptedException ignored) {
                    Thread.currentThread().interrupt();
                  }
                }));
  }

  private static void report(Exception error) {
    if (error != null) {
      System.err.println("send: " + error);
    }
  }

  private static Properties groupSettings() {
    var settings = settings();
    settings.setProperty("group.id", env("GROUP_ID"));
    settings.setProperty("auto.offset.reset", "earliest");
    var assignors = System.getenv("PARTITION_ASSIGNMENT_STRATEGY");
    if ("consumer".equals(System.getenv("GROUP_PROTOCOL"))) {
      settings.setProperty("group.protocol", "consumer");
    } else if (assignors != null) { // else the client's default
      settings.setProperty("partition.assignment.strategy", assignors);
    }
    return settings;
  }

  private static Properties settings() {
    var settings = new Properties();
    settings.setProperty("bootstrap.servers", env("KAFKA_BROKERS"));
    settings.setProperty("client.id", env("CLIENT_ID"));
    return settings;
  }

  private static String env(String name) {
    var value = System.getenv(name);
    if (value == null) {
      throw new IllegalStateException("the environment lacks " + name);
    }
    return value;
  }
}
