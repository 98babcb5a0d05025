package harness;

import static harness.RandomValues.maybe;
import static harness.RandomValues.number;
import static harness.RandomValues.text;

import java.util.Arrays;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/** POJOs as keys, each with a user-defined or generated `hashCode`. */
final class OwnHashes {
    private OwnHashes() {}

    /** Base class that defines equality, but no hash. */
    abstract static class Key {
        /** The values that `equals` compares. */
        abstract Object[] compared();

        @Override
        public boolean equals(Object other) {
            return other != null
                    && other.getClass() == getClass()
                    && Arrays.equals(((Key) other).compared(), compared());
        }

        @Override
        public abstract int hashCode();
    }

    /** Hashed by `Objects.hash`, over fields in alphabetical order, with nulls. */
    public static class Address extends Key {
        public Long area;
        public Integer number;
        public String town;

        static Address random(Random random) {
            Address address = new Address();
            address.area = maybe(random, number(random));
            address.number = maybe(random, random.nextInt());
            address.town = maybe(random, text(random));
            return address;
        }

        @Override
        Object[] compared() {
            return new Object[] {area, number, town};
        }

        @Override
        public int hashCode() {
            return Objects.hash(area, number, town);
        }
    }

    /** Hashed by `Objects.hash` over fields in the order of the class; serializers use alphabetical order. */
    public static class Seat extends Key {
        public String train;
        public int coach;
        public byte[] mark;
        public double place;

        static Seat random(Random random) {
            Seat seat = new Seat();
            seat.train = text(random);
            seat.coach = random.nextInt(20);
            seat.mark = maybe(random, RandomValues.bytes(random));
            seat.place = random.nextGaussian();
            return seat;
        }

        @Override
        Object[] compared() {
            return new Object[] {train, coach, Arrays.hashCode(mark), place};
        }

        @Override
        public int hashCode() {
            return Objects.hash(train, coach, Arrays.hashCode(mark), place);
        }
    }

    /** Hashed as by Lombok's `@EqualsAndHashCode`: primitive fields first, special codes for booleans and nulls. */
    public static class Account extends Key {
        public String owner;
        public boolean open;
        public long balance;

        static Account random(Random random) {
            Account account = new Account();
            account.owner = maybe(random, text(random));
            account.open = random.nextBoolean();
            account.balance = number(random);
            return account;
        }

        @Override
        Object[] compared() {
            return new Object[] {owner, open, balance};
        }

        @Override
        public int hashCode() {
            final int prime = 59;
            int result = 1;
            result = result * prime + (open ? 79 : 97);
            result = result * prime + (int) (balance >>> 32 ^ balance);
            result = result * prime + (owner == null ? 43 : owner.hashCode());
            return result;
        }
    }

    /** Hashed as a record: from zero, over fields in the order of the class. */
    public static class Reading extends Key {
        public String sensor;
        public long at;
        public boolean valid;

        static Reading random(Random random) {
            Reading reading = new Reading();
            reading.sensor = text(random);
            reading.at = number(random);
            reading.valid = random.nextBoolean();
            return reading;
        }

        /** The record with these fields, which has the same hash. */
        record Values(String sensor, long at, boolean valid) {}

        @Override
        Object[] compared() {
            return new Object[] {new Values(sensor, at, valid)};
        }

        @Override
        public int hashCode() {
            return new Values(sensor, at, valid).hashCode();
        }
    }

    /** Hashed by an id only. */
    public static class Customer extends Key {
        public String name;
        public long id;
        public String country;

        static Customer random(Random random) {
            Customer customer = new Customer();
            customer.id = number(random);
            customer.name = maybe(random, "known as " + customer.id);
            customer.country = "of " + customer.id % 7;
            return customer;
        }

        @Override
        Object[] compared() {
            return new Object[] {id};
        }

        @Override
        public int hashCode() {
            return Long.hashCode(id);
        }
    }

    /** Base class of keys that all have one subclass in the first of two subtasks, and another one in the second. */
    public static class Badge extends Key {
        public long number;

        static Badge random(Random random) {
            long number = number(random);
            boolean first = KeyGroupRangeAssignment.assignKeyToParallelOperator(number, 128, 2) == 0;
            Badge badge = first ? new Visitors() : new Staffs();
            badge.number = number;
            return badge;
        }

        @Override
        Object[] compared() {
            return new Object[] {number};
        }

        @Override
        public int hashCode() {
            return Long.hashCode(number);
        }
    }

    public static final class Visitors extends Badge {
        public String host = "nobody";
    }

    public static final class Staffs extends Badge {
        public int floor = 3;
    }

    /** Hashed by `HashCodeBuilder` of Apache Commons. */
    public static class Flight extends Key {
        public String origin;
        public String destination;
        public boolean charter;

        static Flight random(Random random) {
            Flight flight = new Flight();
            flight.origin = text(random);
            flight.destination = maybe(random, text(random));
            flight.charter = random.nextBoolean();
            return flight;
        }

        @Override
        Object[] compared() {
            return new Object[] {origin, destination, charter};
        }

        @Override
        public int hashCode() {
            int total = 17;
            total = total * 37 + origin.hashCode();
            total = total * 37 + (destination == null ? 0 : destination.hashCode());
            return total * 37 + (charter ? 0 : 1);
        }
    }

    /** Has a POJO as a field, and hashes its fields in another order than serializers use. */
    public static class Visit extends Key {
        public Address where;
        public Guest guest;

        static Visit random(Random random) {
            Visit visit = new Visit();
            visit.where = maybe(random, Address.random(random));
            visit.guest = Guest.random(random);
            return visit;
        }

        @Override
        Object[] compared() {
            return new Object[] {where, guest};
        }

        @Override
        public int hashCode() {
            return Objects.hash(where, guest);
        }
    }

    public static class Guest extends Key {
        public String name;
        public Short age;

        static Guest random(Random random) {
            Guest guest = new Guest();
            guest.name = text(random);
            guest.age = maybe(random, (short) random.nextInt());
            return guest;
        }

        @Override
        Object[] compared() {
            return new Object[] {name, age};
        }

        @Override
        public int hashCode() {
            return Objects.hash(name, age);
        }
    }

    /** Has a hash that differs between JVMs, because it includes an enum. */
    public static class Timeout extends Key {
        public long amount;
        public TimeUnit unit;

        static Timeout random(Random random) {
            Timeout timeout = new Timeout();
            timeout.amount = number(random);
            timeout.unit = TimeUnit.values()[random.nextInt(7)];
            return timeout;
        }

        @Override
        Object[] compared() {
            return new Object[] {amount, unit};
        }

        @Override
        public int hashCode() {
            return Objects.hash(amount, unit);
        }
    }

    /** Has a hash that no common formula gives. */
    public static class Secret extends Key {
        public int number;
        public String word;

        static Secret random(Random random) {
            Secret secret = new Secret();
            secret.number = random.nextInt();
            secret.word = text(random);
            return secret;
        }

        @Override
        Object[] compared() {
            return new Object[] {number, word};
        }

        @Override
        public int hashCode() {
            return number ^ Integer.rotateLeft(word.hashCode(), 7);
        }
    }
}
